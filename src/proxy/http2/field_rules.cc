#include "proxy/http2/field_rules.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::http2 {
namespace {

enum Class : uint8_t { kToken = 1, kName = 2, kValue = 4, kPath = 8, kScheme = 16 };

constexpr std::array<uint8_t, 256> classes() {
  std::array<uint8_t, 256> table{};
  for (size_t i = 0; i < table.size(); ++i) {
    const auto c = static_cast<unsigned char>(i);
    const bool small = c >= 'a' && c <= 'z';
    const bool capital = c >= 'A' && c <= 'Z';
    const bool digit = c >= '0' && c <= '9';
    const bool mark = std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos && c;
    if (small || capital || digit || mark) table[i] |= kToken;
    if (small || digit || mark) table[i] |= kName;
    if (c == '\t' || (c >= 0x20 && c != 0x7f)) table[i] |= kValue;
    if (c > 0x20 && c < 0x7f && c != '#') table[i] |= kPath;
    if (small || capital || digit || c == '+' || c == '-' || c == '.') table[i] |= kScheme;
  }
  return table;
}

constexpr std::array<uint8_t, 256> kClasses = classes();

bool all(std::string_view text, uint8_t wanted) {
  return std::ranges::all_of(text,
                             [wanted](char c) { return (kClasses[static_cast<unsigned char>(c)] & wanted) != 0; });
}

}  // namespace

bool is_token(std::string_view text) { return !text.empty() && all(text, kToken); }

bool is_field_name(std::string_view text) { return !text.empty() && all(text, kName); }

bool is_field_value(std::string_view text) {
  if (text.empty()) return true;
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  return !blank(text.front()) && !blank(text.back()) && all(text, kValue);
}

bool is_scheme(std::string_view text) {
  return !text.empty() && lower(text.front()) >= 'a' && lower(text.front()) <= 'z' && all(text, kScheme);
}

bool is_path(std::string_view text) { return !text.empty() && all(text, kPath); }

bool is_connection_specific(std::string_view name) {
  switch (name.size()) {
    case 7:
      return name == "upgrade";
    case 10:
      return name == "connection" || name == "keep-alive";
    case 16:
      return name == "proxy-connection";
    case 17:
      return name == "transfer-encoding";
    default:
      return false;
  }
}

}  // namespace sluice::http2
