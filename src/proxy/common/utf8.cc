#include "proxy/common/utf8.h"

#include <algorithm>
#include <cstdint>

namespace sluice {

size_t utf8_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool too_long = first == 0xe0 && byte(1) < 0xa0, surrogate = first == 0xed && byte(1) > 0x9f;
    return follows(1) && follows(2) && !too_long && !surrogate ? 3 : 0;
  }
  if (first < 0xf0 || first > 0xf4) return 0;
  const bool too_long = first == 0xf0 && byte(1) < 0x90, too_large = first == 0xf4 && byte(1) > 0x8f;
  return follows(1) && follows(2) && follows(3) && !too_long && !too_large ? 4 : 0;
}

std::string_view utf8_beginning(std::string_view text, size_t max) {
  if (text.size() <= max) return text;
  const size_t least = max - std::min<size_t>(max, 3);  // A character has up to four bytes.
  size_t end = max;
  while (end > least && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace sluice
