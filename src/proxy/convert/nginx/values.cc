#include "proxy/convert/nginx/values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "proxy/common/token.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/resolve.h"
#include "proxy/convert/common/values.h"

namespace sluice::convert::nginx {
namespace {

bool is_name_character(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The name of the variable that begins behind a `$`, which is taken from `rest`; empty if there is none.
std::string_view take_variable(std::string_view& rest) {
  if (rest.starts_with('{')) {
    const size_t end = rest.find('}');
    if (end == std::string_view::npos) return "";
    const std::string_view name = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    return name;
  }
  size_t size = 0;
  while (size < rest.size() && is_name_character(rest[size])) ++size;
  const std::string_view name = rest.substr(0, size);
  rest.remove_prefix(size);
  return name;
}

std::optional<std::string> value_of(std::string_view variable, const FixedVariables& fixed) {
  static constexpr std::pair<std::string_view, std::string_view> kVariables[] = {
      {"remote_addr", "%{client_ip}"},
      {"host", "%{host}"},
      {"http_host", "%{authority}"},
      {"scheme", "%{scheme}"},
      {"request_method", "%{method}"},
      {"uri", "%{path}"},
      {"document_uri", "%{path}"},
      {"args", "%{query}"},
      {"query_string", "%{query}"},
      {"server_protocol", "%{protocol}"},
      {"request_id", "%{request_id}"},
      {"ssl_protocol", "%{tls_version}"},
      {"ssl_server_name", "%{tls_server_name}"},
  };
  for (const auto& [name, text] : kVariables) {
    if (variable == name) return std::string(text);
  }
  if (variable == "server_name") return escape_percent(fixed.server_name);
  if (variable == "server_port" && !fixed.server_port.empty()) return fixed.server_port;
  if (variable == "proxy_host" && !fixed.proxy_host.empty()) return escape_percent(fixed.proxy_host);
  if (absl::ConsumePrefix(&variable, "http_") && !variable.empty()) {
    return absl::StrCat("%{header:", absl::StrReplaceAll(variable, {{"_", "-"}}), "}");
  }
  return std::nullopt;
}

// Characters that have one form only in a canonical path.
bool is_plain(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("-._~/").find(c) != std::string_view::npos;
}

// Both forms of a character, as a part of an expression.
std::string both_forms(char c) {
  const std::string escaped = absl::StrCat("%", absl::AsciiStrToUpper(absl::BytesToHexString(std::string_view(&c, 1))));
  const bool may_be_bare =
      absl::ascii_isgraph(static_cast<unsigned char>(c)) && c != '%' && c != '#' && c != '?' && c != '\\';
  return may_be_bare ? absl::StrCat("(?:", quoted_regex(std::string_view(&c, 1)), "|", escaped, ")") : escaped;
}

// Reads an expression, and writes it with both forms of each character that has two.
class FormReader {
 public:
  explicit FormReader(std::string_view regex) : regex_(regex) {}

  std::optional<std::string> read() {
    while (at_ < regex_.size()) {
      const char c = regex_[at_];
      const bool known = c == '\\' ? read_escape() : c == '[' ? read_class() : c == '(' ? read_group() : read_other();
      if (!known) return std::nullopt;
    }
    return out_;
  }

 private:
  void copy(size_t size) {
    absl::StrAppend(&out_, regex_.substr(at_, size));
    at_ += size;
  }
  bool read_escape() {
    if (at_ + 1 == regex_.size()) return false;
    const char c = regex_[at_ + 1];
    if (std::string_view("wWdDbB").find(c) != std::string_view::npos || is_plain(c)) {
      // Other letters stand for blanks, bytes and so on, digits for groups.
      if (absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
          std::string_view("wWdDbB").find(c) == std::string_view::npos)
        return false;
      copy(2);
      return true;
    }
    out_ += both_forms(c);
    at_ += 2;
    return true;
  }
  bool read_class() {
    size_t end = at_ + 1;
    if (end < regex_.size() && regex_[end] == '^') ++end;
    for (size_t i = end; i < regex_.size(); ++i) {
      const char c = regex_[i];
      if (c == ']' && i > end) {
        copy(i + 1 - at_);
        return true;
      }
      if (c == '\\' && i + 1 < regex_.size() &&
          (is_plain(regex_[i + 1]) || regex_[i + 1] == 'w' || regex_[i + 1] == 'd')) {
        ++i;
      } else if (!is_plain(c)) {
        return false;
      }
    }
    return false;
  }
  bool read_group() {
    const std::string_view rest = regex_.substr(at_);
    size_t size = 1;
    if (rest.starts_with("(?")) {
      size = rest.find_first_of(":)>");
      if (size == std::string_view::npos || rest.starts_with("(?=") || rest.starts_with("(?!")) return false;
      ++size;
    }
    copy(size);
    return true;
  }
  bool read_other() {
    const char c = regex_[at_];
    if (c == '{') {
      const size_t end = regex_.find('}', at_);
      if (end == std::string_view::npos) return false;
      copy(end + 1 - at_);
    } else if (is_plain(c) || std::string_view("^$.|?*+)").find(c) != std::string_view::npos) {
      copy(1);
    } else {
      out_ += both_forms(c);
      ++at_;
    }
    return true;
  }

  std::string_view regex_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::optional<PathSet> decoded_path_regex(std::string_view regex, bool any_case) {
  const std::optional<std::string> both = FormReader(regex).read();
  return both ? path_regex(*both, any_case) : std::nullopt;
}

std::optional<PathSet> decoded_path(std::string_view text, PathSet::Kind kind) {
  if (!text.starts_with('/')) return std::nullopt;
  if (std::all_of(text.begin(), text.end(), is_plain)) {
    const std::optional<std::string> canonical = canonical_path_text(text);
    return canonical ? std::optional(PathSet{.kind = kind, .text = *canonical}) : std::nullopt;
  }
  std::string regex;
  for (const char c : text) regex += is_plain(c) ? quoted_regex(std::string_view(&c, 1)) : both_forms(c);
  if (kind == PathSet::Kind::kBytes) regex += ".*";
  return PathSet{.kind = PathSet::Kind::kRegex, .text = std::move(regex)};
}

std::optional<std::chrono::milliseconds> parse_time(std::string_view text) {
  constexpr uint64_t kMost = uint64_t{100} * 365 * 24 * 3600 * 1000;
  uint64_t total = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    size_t digits = 0;
    while (digits < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[digits]))) ++digits;
    uint64_t number = 0;
    if (!absl::SimpleAtoi(text.substr(0, digits), &number) || number > kMost) return std::nullopt;
    text.remove_prefix(digits);
    const uint64_t unit = absl::ConsumePrefix(&text, "ms")  ? 1
                          : absl::ConsumePrefix(&text, "s") ? 1000
                          : absl::ConsumePrefix(&text, "m") ? 60 * 1000
                          : absl::ConsumePrefix(&text, "h") ? 3600 * 1000
                          : absl::ConsumePrefix(&text, "d") ? 24 * 3600 * 1000
                          : absl::ConsumePrefix(&text, "w") ? 7 * 24 * 3600 * 1000
                          : text.empty()                    ? 1000
                                                            : 0;
    if (unit == 0) return std::nullopt;
    total = std::min(kMost, total + number * unit);
  }
  return std::chrono::milliseconds(total);
}

std::optional<uint64_t> parse_size(std::string_view text) {
  uint64_t unit = 1;
  if (!text.empty()) {
    const char last = absl::ascii_tolower(static_cast<unsigned char>(text.back()));
    unit = last == 'k' ? 1024 : last == 'm' ? 1024 * 1024 : last == 'g' ? 1024 * 1024 * 1024 : 1;
    if (unit > 1) text.remove_suffix(1);
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number > (uint64_t{1} << 50) / unit) return std::nullopt;
  return number * unit;
}

bool has_variables(std::string_view text) { return text.find('$') != std::string_view::npos; }

TranslatedText translate_text(std::string_view text, const FixedVariables& fixed) {
  TranslatedText made;
  while (!text.empty()) {
    const size_t dollar = std::min(text.find('$'), text.size());
    made.text += escape_percent(text.substr(0, dollar));
    text.remove_prefix(dollar);
    if (!absl::ConsumePrefix(&text, "$")) break;
    const std::string_view variable = take_variable(text);
    const std::optional<std::string> value = value_of(variable, fixed);
    if (value) {
      made.text += *value;
    } else if (made.unknown.empty()) {
      made.unknown = absl::StrCat("$", variable);
    }
  }
  return made;
}

std::optional<std::string> substitution_of(std::string_view replacement) {
  std::string out;
  for (size_t i = 0; i < replacement.size(); ++i) {
    const char c = replacement[i];
    if (c == '\\') {
      out += "\\\\";
    } else if (c != '$') {
      out += c;
    } else {
      std::string_view rest = replacement.substr(i + 1);
      const size_t before = rest.size();
      // `$1` ends at its digit: `$10` is the first group and a zero.
      std::string_view group = rest.substr(0, std::min<size_t>(1, rest.size()));
      if (group == "{") {
        group = take_variable(rest);
      } else {
        rest.remove_prefix(group.size());
      }
      if (group.size() != 1 || group[0] < '1' || group[0] > '9') return std::nullopt;
      absl::StrAppend(&out, "\\", group);
      i += before - rest.size();
    }
  }
  return out;
}

std::optional<std::string> address_of(std::string_view text, std::string_view port, bool listens) {
  if (text.starts_with("unix:"))
    return config::Address::parse(text).ok() ? std::optional(std::string(text)) : std::nullopt;
  std::string made(text);
  uint32_t number = 0;
  if (listens && absl::SimpleAtoi(text, &number)) {
    made = absl::StrCat("0.0.0.0:", text);
  } else if (listens && absl::ConsumePrefix(&text, "*:")) {
    made = absl::StrCat("0.0.0.0:", text);
  } else {
    const size_t colon = made.rfind(':');
    if (colon == std::string::npos || made.ends_with(']')) absl::StrAppend(&made, ":", port);
  }
  const bool known = listens ? config::Address::parse(made).ok() : config::EndpointAddress::parse(made).ok();
  return known ? std::optional(made) : std::nullopt;
}

}  // namespace sluice::convert::nginx
