#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/common/proto_writer.h"

namespace sluice {

/// Reads the fields of a message, which the caller keeps. Groups, which nothing sends any more, count as malformed.
///
///     ProtoReader in(message);
///     while (in.next()) {
///       if (in.is(1, ProtoWire::kBytes)) name = in.bytes();   // others are unknown fields
///     }
///     if (!in.ok()) return malformed();
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message) : rest_(message) {}

  /// Reads one more field. False: there is none, or the message is malformed.
  [[nodiscard]] bool next();
  /// Whether the message is well-formed as far as it was read.
  bool ok() const { return ok_; }

  // The field that was read.
  bool is(uint32_t field, ProtoWire wire) const { return field_ == field && wire_ == wire; }
  uint32_t field() const { return field_; }
  ProtoWire wire() const { return wire_; }
  /// The value, if it is a number.
  uint64_t number() const { return number_; }
  /// The value, if it is a text or a message.
  std::string_view bytes() const { return bytes_; }

 private:
  bool fail() {
    rest_ = {};
    return ok_ = false;
  }
  bool read_varint(uint64_t& value);
  bool read_fixed(size_t bytes);
  bool read_bytes();

  std::string_view rest_;
  std::string_view bytes_;
  uint64_t number_ = 0;
  uint32_t field_ = 0;
  ProtoWire wire_ = ProtoWire::kVarint;
  bool ok_ = true;
};

}  // namespace sluice
