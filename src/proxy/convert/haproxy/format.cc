#include "proxy/convert/haproxy/format.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/convert/common/path_set.h"
#include "proxy/convert/common/prefix_change.h"
#include "proxy/convert/common/values.h"
#include "proxy/convert/common/yaml_writer.h"

namespace sluice::convert::haproxy {
namespace {

using config::Node;

// The value of `%[...]`; nothing if it has no counterpart.
std::optional<std::string> sample_text(std::string_view sample) {
  static constexpr std::pair<std::string_view, std::string_view> kSamples[] = {
      {"src", "%{client_ip}"},
      {"method", "%{method}"},
      {"path", "%{path}"},
      {"query", "%{query}"},
      {"hdr(host)", "%{authority}"},
      {"req.hdr(host)", "%{authority}"},
      {"hdr(Host)", "%{authority}"},
      {"req.hdr(Host)", "%{authority}"},
      {"hdr(host),field(1,:)", "%{host}"},
      {"req.hdr(host),field(1,:)", "%{host}"},
      {"ssl_fc_sni", "%{tls_server_name}"},
      {"ssl_fc_protocol", "%{tls_version}"},
      {"unique-id", "%{request_id}"},
  };
  for (const auto& [name, text] : kSamples) {
    if (sample == name) return std::string(text);
  }
  absl::ConsumePrefix(&sample, "req.");
  if (!absl::ConsumePrefix(&sample, "hdr(") || !absl::ConsumeSuffix(&sample, ")")) return std::nullopt;
  if (sample.empty() || sample.find_first_of(",)(}{%") != std::string_view::npos) return std::nullopt;
  return absl::StrCat("%{header:", absl::AsciiStrToLower(sample), "}");
}

// `%ci` and its like.
std::optional<std::string> short_text(std::string_view& rest) {
  for (const auto& [name, text] : {std::pair{"ci", "%{client_ip}"}, std::pair{"HM", "%{method}"},
                                   std::pair{"ID", "%{request_id}"}, std::pair{"sslv", "%{tls_version}"}}) {
    if (absl::ConsumePrefix(&rest, name)) return text;
  }
  return std::nullopt;
}

// Takes `http://host:port` from the front of a URL.
bool take_origin(std::string_view& url, Node& out) {
  for (const std::string_view scheme : {"https", "http"}) {
    if (!url.starts_with(absl::StrCat(scheme, "://"))) continue;
    url.remove_prefix(scheme.size() + 3);
    put(out, "scheme", scheme);
    if (absl::ConsumePrefix(&url, "%[hdr(host)]") || absl::ConsumePrefix(&url, "%[req.hdr(host)]") ||
        absl::ConsumePrefix(&url, "%[req.hdr(Host)]")) {
      return true;
    }
    const std::string_view authority = url.substr(0, std::min(url.find_first_of("/%?"), url.size()));
    const std::string_view host = authority.substr(0, authority.find(':'));
    if (host.starts_with('*') || !config::HostPattern::parse(host).ok()) return false;
    put(out, "host", host);
    if (host.size() < authority.size()) {
      uint32_t port = 0;
      if (!absl::SimpleAtoi(authority.substr(host.size() + 1), &port) || port == 0 || port > 65535) return false;
      put(out, "port", absl::StrCat(port));
    }
    url.remove_prefix(authority.size());
    return true;
  }
  return url.starts_with('/');
}

bool is_canonical(std::string_view path) { return canonical_path_text(path) == path; }

}  // namespace

bool is_fixed(std::string_view format) { return !absl::StrContains(format, '%'); }

TranslatedText translate_format(std::string_view format) {
  TranslatedText made;
  while (!format.empty()) {
    const size_t percent = std::min(format.find('%'), format.size());
    made.text += format.substr(0, percent);
    format.remove_prefix(percent);
    if (!absl::ConsumePrefix(&format, "%")) break;
    if (absl::ConsumePrefix(&format, "%")) {
      made.text += "%%";
      continue;
    }
    std::optional<std::string> value;
    std::string name;
    if (const size_t end = format.find(']'); format.starts_with('[') && end != std::string_view::npos) {
      name = format.substr(0, end + 1);
      value = sample_text(format.substr(1, end - 1));
      format.remove_prefix(end + 1);
    } else {
      name = format.substr(0, 2);
      value = short_text(format);
    }
    if (!value && made.unknown.empty()) made.unknown = absl::StrCat("%", name);
    made.text += value.value_or("");
  }
  return made;
}

bool put_redirect(std::string_view url, bool is_prefix, Node& out) {
  std::string_view rest = url;
  if (!take_origin(rest, out)) return false;
  constexpr std::string_view kWholePaths[] = {"%[capture.req.uri]", "%[path]%[query]", "%[url]", "%[pathq]"};
  const bool whole = std::find(std::begin(kWholePaths), std::end(kWholePaths), rest) != std::end(kWholePaths);
  if (is_prefix || whole) {
    if (whole || rest.empty() || rest == "/") return out.find("scheme") != nullptr;
    // A prefix with a path, before the path of the request.
    absl::ConsumeSuffix(&rest, "/");
    if (!is_fixed(rest) || !is_canonical(rest)) return false;
    put(out, "regex", "(/.*)");
    put(out, "substitution", absl::StrCat(literal_substitution(rest), "\\1"));
    return true;
  }
  if (rest == "%[path]") {
    put(out, "drop_query", "true");
    return out.find("scheme") != nullptr;
  }
  if (rest.empty()) rest = "/";
  if (!is_fixed(rest) || !is_canonical(rest)) return false;
  put(out, "path", rest);
  put(out, "drop_query", "true");
  return true;
}

bool put_path(std::string_view format, Node& out) {
  if (is_fixed(format)) {
    if (!is_canonical(format)) return false;
    put(out, "path", format);
    return true;
  }
  std::string_view rest = format;
  if (absl::ConsumeSuffix(&rest, "%[path]")) {
    if (!is_fixed(rest) || !rest.starts_with('/') || !is_canonical(rest)) return false;
    put(out, "regex", "(/.*)");
    put(out, "substitution", absl::StrCat(literal_substitution(rest), "\\1"));
    return true;
  }
  // `%[path,regsub(^/api/,/)]`
  if (!absl::ConsumePrefix(&rest, "%[path,regsub(^") || !absl::ConsumeSuffix(&rest, ")]")) return false;
  const size_t comma = rest.find(',');
  if (comma == std::string_view::npos) return false;
  const std::string_view before = rest.substr(0, comma), after = rest.substr(comma + 1);
  const bool plain = is_fixed(before) && is_fixed(after) && is_canonical(before) &&
                     after.find_first_of(",()\\") == std::string_view::npos &&
                     before.find_first_of(".*+?()[]{}|^$\\") == std::string_view::npos;
  if (!plain) return false;
  put(out, "regex", absl::StrCat(quoted_regex(before), "(.*)"));
  put(out, "substitution", absl::StrCat(literal_substitution(after), "\\1"));
  return true;
}

}  // namespace sluice::convert::haproxy
