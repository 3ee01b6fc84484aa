#include "proxy/common/proto_reader.h"

namespace sluice {

namespace {

constexpr uint64_t kMaxField = (uint64_t{1} << 29) - 1;

}  // namespace

bool ProtoReader::next() {
  if (rest_.empty()) return false;
  uint64_t tag = 0;
  if (!read_varint(tag)) return false;
  const uint64_t field = tag >> 3;
  if (field == 0 || field > kMaxField) return fail();
  field_ = static_cast<uint32_t>(field);
  wire_ = static_cast<ProtoWire>(tag & 7);
  number_ = 0;
  bytes_ = {};
  switch (wire_) {
    case ProtoWire::kVarint:
      return read_varint(number_);
    case ProtoWire::kFixed64:
      return read_fixed(8);
    case ProtoWire::kFixed32:
      return read_fixed(4);
    case ProtoWire::kBytes:
      return read_bytes();
  }
  return fail();
}

// At most ten bytes. What goes beyond 64 bits is dropped, as protobuf's own readers do.
bool ProtoReader::read_varint(uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < 10 && i < rest_.size(); ++i) {
    const auto byte = static_cast<uint8_t>(rest_[i]);
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte >= 0x80) continue;
    rest_.remove_prefix(i + 1);
    return true;
  }
  return fail();
}

bool ProtoReader::read_fixed(size_t bytes) {
  if (rest_.size() < bytes) return fail();
  for (size_t i = 0; i < bytes; ++i) number_ |= uint64_t{static_cast<uint8_t>(rest_[i])} << (8 * i);
  rest_.remove_prefix(bytes);
  return true;
}

bool ProtoReader::read_bytes() {
  uint64_t size = 0;
  if (!read_varint(size)) return false;
  if (size > rest_.size()) return fail();
  bytes_ = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return true;
}

}  // namespace sluice
