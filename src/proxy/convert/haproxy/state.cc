#include "proxy/convert/haproxy/state.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"

namespace sluice::convert::haproxy {

const Line* Proxy::last(std::string_view keyword, std::string_view second) const {
  const std::vector<const Line*> found = all(keyword, second);
  return found.empty() ? nullptr : found.back();
}

std::vector<const Line*> Proxy::all(std::string_view keyword, std::string_view second) const {
  std::vector<const Line*> found;
  for (const Line* const line : lines) {
    if (line->keyword() == keyword && (second.empty() || line->word(1) == second)) found.push_back(line);
  }
  return found;
}

bool Proxy::has_option(std::string_view name) const {
  bool on = false;
  for (const Line* const line : lines) {
    if (line->keyword() == "option" && line->word(1) == name) on = true;
    if (line->keyword() == "no" && line->word(1) == "option" && line->word(2) == name) on = false;
  }
  return on;
}

bool Proxy::is_http() const {
  const Line* const mode = last("mode");
  return mode != nullptr && mode->word(1) == "http";
}

const Proxy* State::find_backend(std::string_view name) const {
  for (const Proxy& proxy : proxies) {
    if (proxy.is_backend() && proxy.section->name == name) return &proxy;
  }
  return nullptr;
}

std::string State::file(std::string_view path, std::string_view base) const {
  if (path.starts_with('/') || global == nullptr) return std::string(path);
  for (const Line& line : global->lines) {
    if (line.keyword() == base) return absl::StrCat(absl::StripSuffix(line.word(1), "/"), "/", path);
  }
  return std::string(path);
}

std::optional<std::chrono::milliseconds> parse_time(std::string_view text, int64_t unit_ms) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[digits]))) ++digits;
  int64_t number = 0;
  if (!absl::SimpleAtoi(text.substr(0, digits), &number) || number > kLongestMs) return std::nullopt;
  const std::string_view unit = text.substr(digits);
  if (unit == "us") return std::chrono::milliseconds((number + 999) / 1000);
  const int64_t factor = unit.empty()   ? unit_ms
                         : unit == "ms" ? 1
                         : unit == "s"  ? 1000
                         : unit == "m"  ? 60 * 1000
                         : unit == "h"  ? 3600 * 1000
                         : unit == "d"  ? 24 * 3600 * 1000
                                        : 0;
  if (factor == 0) return std::nullopt;
  return std::chrono::milliseconds(std::min<int64_t>(kLongestMs, number * factor));
}

void put_time(config::Node& out, std::string_view key, const Line& line, std::string_view text, State& state) {
  const auto time = parse_time(text);
  if (!time) return state.refuse(line, absl::StrCat("expected a time such as 5s, got ", config::in_quotes(text)));
  put(out, key, duration_text(*time));
}

void put_count(config::Node& out, std::string_view key, const Line& line, std::string_view text, uint64_t least,
               uint64_t most, State& state) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) {
    return state.refuse(line, absl::StrCat("expected a number, got ", config::in_quotes(text)));
  }
  if (number < least || number > most)
    state.ignore(line, absl::StrCat("the nearest number from ", least, " to ", most, " is taken"));
  put(out, key, absl::StrCat(std::clamp(number, least, most)));
}

}  // namespace sluice::convert::haproxy
