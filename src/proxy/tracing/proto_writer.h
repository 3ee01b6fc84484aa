#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

/// The size of a number as a varint of protobuf.
inline size_t varint_size(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

/// Writes fields of protobuf into a fixed room. What does not fit makes it fail.
class ProtoWriter {
 public:
  explicit ProtoWriter(std::span<char> room) : room_(room) {}

  void number(uint32_t field, uint64_t value) {
    tag(field, Wire::kVarint);
    varint(value);
  }
  void fixed64(uint32_t field, uint64_t value) {
    tag(field, Wire::kFixed64);
    for (int i = 0; i < 8; ++i) put(static_cast<char>(value >> (8 * i)));
  }
  void fixed32(uint32_t field, uint32_t value) {
    tag(field, Wire::kFixed32);
    for (int i = 0; i < 4; ++i) put(static_cast<char>(value >> (8 * i)));
  }
  /// A text, or an encoded message.
  void text(uint32_t field, std::string_view value) {
    begin_message(field, value.size());
    if (value.size() > room_.size() - size_) {
      ok_ = false;
      return;
    }
    std::copy(value.begin(), value.end(), room_.data() + size_);
    size_ += value.size();
  }
  /// Bytes that are given in lower-case hexadecimal digits.
  void id(uint32_t field, std::string_view digits) {
    begin_message(field, digits.size() / 2);
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
      put(static_cast<char>(nibble(digits[i]) << 4 | nibble(digits[i + 1])));
  }
  /// The tag and the length of a message of `bytes` bytes, which follows.
  void begin_message(uint32_t field, size_t bytes) {
    tag(field, Wire::kBytes);
    varint(bytes);
  }

  bool ok() const { return ok_; }
  std::string_view written() const { return {room_.data(), size_}; }

 private:
  enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  static unsigned nibble(char digit) { return static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) put(static_cast<char>(value | 0x80));
    put(static_cast<char>(value));
  }
  void tag(uint32_t field, Wire wire) { varint(uint64_t{field} << 3 | static_cast<uint8_t>(wire)); }
  void put(char byte) {
    if (size_ == room_.size()) {
      ok_ = false;
      return;
    }
    room_[size_++] = byte;
  }

  std::span<char> room_;
  size_t size_ = 0;
  bool ok_ = true;
};

}  // namespace sluice
