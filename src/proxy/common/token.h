// Common elements of the HTTP grammar (RFC 9110 section 5.6).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/common/characters.h"

namespace sluice::http1 {

constexpr char lowered(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_alpha(char c) { return lowered(c) >= 'a' && lowered(c) <= 'z'; }
inline constexpr std::array<bool, 256> kTokenChars = [] {
  std::array<bool, 256> chars{};
  for (const char c : std::string_view("!#$%&'*+-.^_`|~")) chars[static_cast<uint8_t>(c)] = true;
  for (size_t c = 0; c < 128; ++c)
    chars[c] = chars[c] || is_digit(static_cast<char>(c)) || is_alpha(static_cast<char>(c));
  return chars;
}();
constexpr bool is_token_char(char c) { return kTokenChars[static_cast<uint8_t>(c)]; }
inline bool is_token(std::string_view text) {
  if (text.empty()) return false;
  // Nearly all have letters, digits and hyphens only.
  if (has_none(text, [](Characters c) { return ((c | 0x20) - 'a' > 25) & (c - '0' > 9) & (c != '-'); })) return true;
  // A lambda, because a function pointer would not be inlined.
  return std::all_of(text.begin(), text.end(), [](char c) { return is_token_char(c); });
}
/// Whether all characters are visible ASCII.
constexpr bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

/// Whether `text` has no control character except tab: the rule for field values and reason phrases.
inline bool is_field_text(std::string_view text) {
  return has_none(text, [](Characters c) { return ((c < ' ') & (c != '\t')) | (c == 0x7f); });
}

/// Whether `text` equals `lower`, ignoring the case of ASCII letters. `lower` is in lower case.
constexpr bool same(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() &&
         std::equal(text.begin(), text.end(), lower.begin(), [](char a, char b) { return lowered(a) == b; });
}

/// Returns `text` without leading and trailing spaces and tabs.
constexpr std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Calls `visit(std::string_view)` for each non-empty member of a comma-separated list until it returns false. Returns
/// whether no call did.
template <typename Visit>
constexpr bool each_member(std::string_view list, Visit&& visit) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view member = trimmed(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (!member.empty() && !visit(member)) return false;
  }
  return true;
}

/// Whether a list has the member `lower`, ignoring the case of ASCII letters. `lower` is in lower case.
constexpr bool has_member(std::string_view list, std::string_view lower) {
  return !each_member(list, [lower](std::string_view member) { return !same(member, lower); });
}

/// Reads a Content-Length: digits only, up to 2^63 - 1. Returns false if it is invalid.
constexpr bool read_length(std::string_view text, uint64_t& length) {
  if (text.empty() || text.size() > 19 || !std::all_of(text.begin(), text.end(), is_digit)) return false;
  length = 0;
  for (const char c : text) length = length * 10 + static_cast<uint64_t>(c - '0');
  return length <= uint64_t{INT64_MAX};
}

}  // namespace sluice::http1
