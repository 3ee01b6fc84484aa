#include "proxy/common/proto_writer.h"

#include <algorithm>
#include <cstring>

#include "proxy/common/utf8.h"

namespace sluice {

namespace {

unsigned nibble(char digit) { return static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10); }

}  // namespace

void ProtoWriter::put(char byte) {
  if (size_ == room_.size()) {
    ok_ = false;
    return;
  }
  room_[size_++] = byte;
}

void ProtoWriter::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) put(static_cast<char>(value | 0x80));
  put(static_cast<char>(value));
}

void ProtoWriter::number(uint32_t field, uint64_t value) {
  tag(field, ProtoWire::kVarint);
  varint(value);
}

void ProtoWriter::fixed64(uint32_t field, uint64_t value) {
  tag(field, ProtoWire::kFixed64);
  for (int i = 0; i < 8; ++i) put(static_cast<char>(value >> (8 * i)));
}

void ProtoWriter::fixed32(uint32_t field, uint32_t value) {
  tag(field, ProtoWire::kFixed32);
  for (int i = 0; i < 4; ++i) put(static_cast<char>(value >> (8 * i)));
}

void ProtoWriter::text(uint32_t field, std::string_view value) {
  begin_sized(field, value.size());
  if (value.size() > room_.size() - size_) {
    ok_ = false;
    return;
  }
  std::copy(value.begin(), value.end(), room_.data() + size_);
  size_ += value.size();
}

void ProtoWriter::utf8(uint32_t field, std::string_view value) {
  text(field, value);
  if (!ok_) return;
  char* const written = room_.data() + size_ - value.size();
  for (size_t at = 0; at < value.size();) {
    const size_t size = utf8_bytes(value.substr(at));
    if (size == 0) written[at] = '!';
    at += size == 0 ? 1 : size;
  }
}

void ProtoWriter::hex(uint32_t field, std::string_view digits) {
  begin_sized(field, digits.size() / 2);
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    put(static_cast<char>(nibble(digits[i]) << 4 | nibble(digits[i + 1])));
  }
}

void ProtoWriter::begin_sized(uint32_t field, size_t bytes) {
  tag(field, ProtoWire::kBytes);
  varint(bytes);
}

size_t ProtoWriter::begin(uint32_t field) {
  begin_sized(field, 0);
  return size_;
}

// The length takes the place of the 0 in front of the fields, which move if it is longer.
void ProtoWriter::end(size_t begun) {
  if (!ok_) return;
  const size_t bytes = size_ - begun, more = varint_size(bytes) - 1;
  if (more > room_.size() - size_) {
    ok_ = false;
    return;
  }
  char* const fields = room_.data() + begun;
  if (more > 0) std::memmove(fields + more, fields, bytes);
  size_ = begun - 1;
  varint(bytes);
  size_ += bytes;
}

}  // namespace sluice
