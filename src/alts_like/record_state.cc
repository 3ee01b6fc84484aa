#include "alts_like/record_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "alts_like/aead_pieces.h"
#include "alts_like/alts_record_layer.h"
#include "alts_like/plain_record_layer.h"
#include "alts_like/tls12_record_layer.h"
#include "alts_like/tls13_record_layer.h"

namespace sluice {

std::unique_ptr<RecordLayer> read_record_layer(ChunkPool& pool, std::span<const uint8_t> bytes) {
  if (bytes.size() > kMaxRecordStateBytes) return nullptr;
  StateReader in(bytes);
  if (in.u8() != kRecordStateVersion) return nullptr;
  switch (RecordProtocol{in.u8()}) {
    case RecordProtocol::kPlain:
      return in.done() ? std::make_unique<PlainRecordLayer>() : nullptr;
    case RecordProtocol::kTls13:
      return Tls13RecordLayer::read_state(pool, in);
    case RecordProtocol::kTls12:
      return Tls12RecordLayer::read_state(pool, in);
    case RecordProtocol::kAlts:
      return AltsRecordLayer::read_state(pool, in);
  }
  return nullptr;
}

// ---- Writing ----

StateWriter::StateWriter(SecretBytes& out, RecordProtocol protocol) : out_(out), begin_(out.size()) {
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

Buffer StateReader::buffer(ChunkPool& pool) {
  std::span<const uint8_t> left = bytes(u32());
  Buffer read;
  while (!left.empty()) {
    Lease lease = lease_of(pool, std::min(left.size(), kMaxChunkBytes));
    std::memcpy(lease.data(), left.data(), lease.size());
    left = left.subspan(lease.size());
    read.append(std::move(lease));
  }
  return read;
}

}  // namespace sluice
