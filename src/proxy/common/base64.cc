#include "proxy/common/base64.h"

#include <array>
#include <cstdint>

#include "sluice/internal/check.h"

namespace sluice {
namespace {

constexpr uint8_t kNone = 0xff;

constexpr std::array<uint8_t, 256> values_of(char last_but_one, char last) {
  std::array<uint8_t, 256> values{};
  for (uint8_t& value : values) value = kNone;
  for (int i = 0; i < 26; ++i) {
    values[static_cast<size_t>('A' + i)] = static_cast<uint8_t>(i);
    values[static_cast<size_t>('a' + i)] = static_cast<uint8_t>(26 + i);
  }
  for (int i = 0; i < 10; ++i) values[static_cast<size_t>('0' + i)] = static_cast<uint8_t>(52 + i);
  values[static_cast<unsigned char>(last_but_one)] = 62;
  values[static_cast<unsigned char>(last)] = 63;
  return values;
}

constexpr std::array<uint8_t, 256> kPaddedValues = values_of('+', '/');
constexpr std::array<uint8_t, 256> kUrlValues = values_of('-', '_');

}  // namespace

std::optional<std::span<const unsigned char>> decode_base64(Base64 kind, std::string_view text,
                                                            std::span<unsigned char> room) {
  SLUICE_CHECK(room.size() >= text.size() / 4 * 3 + text.size() % 4);
  if (kind == Base64::kPadded) {
    if (text.size() % 4 != 0) return std::nullopt;
    for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  }
  if (text.size() % 4 == 1) return std::nullopt;
  const std::array<uint8_t, 256>& values = kind == Base64::kPadded ? kPaddedValues : kUrlValues;
  uint32_t bits = 0;
  unsigned count = 0;
  size_t size = 0;
  for (const char c : text) {
    const uint8_t value = values[static_cast<unsigned char>(c)];
    if (value == kNone) return std::nullopt;
    bits = bits << 6 | value;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    room[size++] = static_cast<unsigned char>(bits >> count);
    bits &= (1u << count) - 1;
  }
  if (bits != 0) return std::nullopt;
  return room.first(size);
}

}  // namespace sluice
