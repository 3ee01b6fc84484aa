// The wire format of protobuf (protobuf.dev/programming-guides/encoding), for the few messages that the proxy speaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

enum class ProtoWire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// The bytes of a number as a varint.
constexpr size_t varint_size(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

/// Writes fields of messages, one after the other, into a room of the caller. What does not fit makes it fail for good.
///
///     ProtoWriter out(room);
///     out.text(1, "edge");
///     const size_t entry = out.begin(2);
///     out.number(1, 7);
///     out.end(entry);
///     if (out.ok()) send(out.written());
class ProtoWriter {
 public:
  explicit ProtoWriter(std::span<char> room) : room_(room) {}

  /// A number, a truth value or an enumeration.
  void number(uint32_t field, uint64_t value);
  void fixed64(uint32_t field, uint64_t value);
  void fixed32(uint32_t field, uint32_t value);
  /// A string or bytes. A string must be UTF-8: see utf8().
  void text(uint32_t field, std::string_view value);
  /// A string from texts that may be none: bytes that are not UTF-8 become `!`.
  void utf8(uint32_t field, std::string_view value);
  /// Bytes given as hexadecimal digits in lower case.
  void hex(uint32_t field, std::string_view digits);

  /// Begins a message, whose fields follow until end() is called with the result.
  [[nodiscard]] size_t begin(uint32_t field);
  void end(size_t begun);
  /// Begins a message whose fields have this many bytes in total.
  void begin_sized(uint32_t field, size_t bytes);

  bool ok() const { return ok_; }
  std::string_view written() const { return {room_.data(), size_}; }

 private:
  void tag(uint32_t field, ProtoWire wire) { varint(uint64_t{field} << 3 | static_cast<uint8_t>(wire)); }
  void varint(uint64_t value);
  void put(char byte);

  std::span<char> room_;
  size_t size_ = 0;
  bool ok_ = true;
};

}  // namespace sluice
