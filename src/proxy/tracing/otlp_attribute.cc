#include "proxy/tracing/otlp_attribute.h"

#include <algorithm>
#include <array>

#include "proxy/common/utf8.h"

namespace sluice {

std::string_view valid_text(std::string_view text, std::span<char> room) {
  const std::string_view front = text.substr(0, room.size());
  unsigned all = 0;
  for (const char c : front) all |= static_cast<uint8_t>(c);
  if (all < 0x80) return front;
  size_t size = 0;
  while (!text.empty()) {
    const size_t valid = utf8_bytes(text);
    const std::string_view piece = valid > 0 ? text.substr(0, valid) : "\xef\xbf\xbd";
    if (piece.size() > room.size() - size) break;
    std::copy(piece.begin(), piece.end(), room.data() + size);
    size += piece.size();
    text.remove_prefix(std::max<size_t>(valid, 1));
  }
  return {room.data(), size};
}

// KeyValue { key = 1, value = 2 }, AnyValue { string_value = 1, int_value = 3 }
void write_attribute(ProtoWriter& out, uint32_t field, const OtlpAttribute& attribute) {
  if (!attribute.is_number && attribute.text.empty()) return;
  std::array<char, kMaxOtlpText> room;
  const std::string_view text = valid_text(attribute.text, room);
  const auto number = static_cast<uint64_t>(attribute.number);
  const size_t value_bytes = attribute.is_number ? 1 + varint_size(number) : 1 + varint_size(text.size()) + text.size();
  out.begin_sized(
      field, 1 + varint_size(attribute.key.size()) + attribute.key.size() + 1 + varint_size(value_bytes) + value_bytes);
  out.text(1, attribute.key);
  out.begin_sized(2, value_bytes);
  attribute.is_number ? out.number(3, number) : out.text(1, text);
}

}  // namespace sluice
