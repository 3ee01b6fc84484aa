#include "proxy/http/h2/field_rules.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

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

// Tests eight characters at once: the high bit of each byte holds the result. Sums do not carry into the next byte,
// because their operands are below 0x80.
constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x80 * kOnes;
constexpr uint64_t at_least(uint64_t ascii, unsigned char c) { return ascii + (0x80u - c) * kOnes; }
constexpr uint64_t equal(uint64_t ascii, unsigned char c) { return ~((ascii ^ c * kOnes) + 0x7f * kOnes); }

// Whether each of the eight characters is among those that make up nearly all values, names, or paths.
constexpr bool plain_value(uint64_t word) {
  const uint64_t ascii = word & ~kHighs;
  return ((word | (at_least(ascii, ' ') & ~equal(ascii, 0x7f))) & kHighs) == kHighs;
}
constexpr bool plain_name(uint64_t word) {
  const uint64_t ascii = word & ~kHighs;
  const uint64_t good = (at_least(ascii, 'a') & ~at_least(ascii, 'z' + 1)) | equal(ascii, '-');
  return (good & ~word & kHighs) == kHighs;
}
constexpr bool plain_path(uint64_t word) {
  const uint64_t ascii = word & ~kHighs;
  const uint64_t good = at_least(ascii, '!') & ~at_least(ascii, 0x7f) & ~equal(ascii, '#');
  return (good & ~word & kHighs) == kHighs;
}
static_assert(plain_value(0x20ff807e41302f21) && !plain_value(0x2020202020202009) && !plain_value(0x7f20202020202020));
static_assert(plain_name(0x617a2d6d6e6f7071) && !plain_name(0x6161616161616160) && !plain_name(0x7b61616161616161) &&
              !plain_name(0xe161616161616161));
static_assert(plain_path(0x2f7e21242f617a41) && !plain_path(0x2020202020202023) && !plain_path(0x7f2f2f2f2f2f2f2f) &&
              !plain_path(0x2f2f2f202f2f2f2f) && !plain_path(0x2f2fff2f2f2f2f2f));

// Like all(), but faster if `plain` holds for each group of eight characters.
template <bool (*plain)(uint64_t)>
bool all(std::string_view text, uint8_t wanted) {
  constexpr size_t kStep = sizeof(uint64_t);
  if (text.size() < kStep) return all(text, wanted);
  const auto plain_at = [&](size_t at) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, kStep);
    return plain(word);
  };
  for (size_t at = 0; at + kStep < text.size(); at += kStep) {
    if (!plain_at(at)) return all(text, wanted);
  }
  return plain_at(text.size() - kStep) || all(text, wanted);
}

}  // namespace

bool is_token(std::string_view text) { return !text.empty() && all(text, kToken); }

bool is_field_name(std::string_view text) { return !text.empty() && all<plain_name>(text, kName); }

bool is_field_value(std::string_view text) {
  if (text.empty()) return true;
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  return !blank(text.front()) && !blank(text.back()) && all<plain_value>(text, kValue);
}

bool is_scheme(std::string_view text) {
  return !text.empty() && lower(text.front()) >= 'a' && lower(text.front()) <= 'z' && all(text, kScheme);
}

bool is_path(std::string_view text) { return !text.empty() && all<plain_path>(text, kPath); }

}  // namespace sluice::http2
