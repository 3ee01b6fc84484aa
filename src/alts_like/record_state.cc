#include "alts_like/record_state.h"

#include <algorithm>

namespace sluice {

// ---- Writing ----

StateWriter::StateWriter(SecretBytes& out, RecordProtocol protocol) : StateWriter(out) {
  u8(kRecordStateVersion);
  u8(static_cast<uint8_t>(protocol));
}

void StateWriter::number(uint64_t value, size_t bytes) {
  while (bytes-- > 0) out_.push_back(static_cast<uint8_t>(value >> 8 * bytes));
}

void StateWriter::buffer(const Buffer& buffer) {
  u32(static_cast<uint32_t>(std::min<size_t>(buffer.size(), UINT32_MAX)));
  for (const std::span<const std::byte> window : buffer.windows()) {
    bytes({reinterpret_cast<const uint8_t*>(window.data()), window.size()});
  }
}

void StateWriter::text(std::string_view text) {
  u32(static_cast<uint32_t>(text.size()));
  bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

bool StateWriter::done() {
  if (out_.size() - begin_ <= kMaxRecordStateBytes) return true;
  out_.resize(begin_);
  return false;
}

// ---- Reading ----

std::span<const uint8_t> StateReader::bytes(size_t count) {
  if (!ok_ || count > rest_.size()) {
    ok_ = false;
    return {};
  }
  const std::span<const uint8_t> read = rest_.first(count);
  rest_ = rest_.subspan(count);
  return read;
}

uint64_t StateReader::number(size_t count) {
  uint64_t value = 0;
  for (const uint8_t byte : bytes(count)) value = value << 8 | byte;
  return value;
}

std::string_view StateReader::text() {
  const std::span<const uint8_t> read = bytes(u32());
  return {reinterpret_cast<const char*>(read.data()), read.size()};
}

Buffer StateReader::buffer(ChunkPool& pool) {
  Buffer read;
  read.append_copy_beyond_budget(pool, std::as_bytes(bytes(u32())));
  return read;
}

}  // namespace sluice
