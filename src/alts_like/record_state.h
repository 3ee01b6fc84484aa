#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "alts_like/record_layer.h"
#include "alts_like/secret_bytes.h"
#include "buffer/buffer.h"
#include "pool/chunk_pool.h"

namespace sluice {

// The byte form of a record layer, for another process of this program to go on with: the version, which protocol, and
// what that protocol's layer writes. Numbers have their high byte first; bytes have their count before them. It holds
// keys: whoever passes it on must keep it as safe as them, and wipe it.
//
//     SecretBytes bytes;
//     if (layer->write_state(bytes)) hand_over(bytes);           // the layer must not be used any more
//     ...
//     std::unique_ptr<RecordLayer> layer = read_record_layer(pool, bytes);   // null: these bytes are no such thing

inline constexpr uint8_t kRecordStateVersion = 1;
/// More is neither written nor read: one record of each protocol, what came behind a handshake, and tickets fit well.
inline constexpr size_t kMaxRecordStateBytes = size_t{2} << 20;

enum class RecordProtocol : uint8_t { kPlain = 0, kTls13 = 1, kAlts = 2, kTls12 = 3 };

/// The layer that wrote `bytes`, or null if they are none of this version's, or not as any layer writes them.
std::unique_ptr<RecordLayer> read_record_layer(ChunkPool& pool, std::span<const uint8_t> bytes);

/// Appends a byte form.
class StateWriter {
 public:
  StateWriter(SecretBytes& out, RecordProtocol protocol);
  void u8(uint8_t value) { out_.push_back(value); }
  void u16(uint16_t value) { number(value, 2); }
  void u32(uint32_t value) { number(value, 4); }
  void u64(uint64_t value) { number(value, 8); }
  /// Without their count.
  void bytes(std::span<const uint8_t> bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  void buffer(const Buffer& buffer);
  /// Whether it is no more than kMaxRecordStateBytes; if it is, what was appended is taken back.
  bool done();

 private:
  void number(uint64_t value, size_t bytes);

  SecretBytes& out_;
  const size_t begin_;
};

/// Reads one. Past the end it reads zeros, and is not ok() for good.
class StateReader {
 public:
  explicit StateReader(std::span<const uint8_t> bytes) : rest_(bytes) {}
  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  /// Empty if there are fewer.
  std::span<const uint8_t> bytes(size_t count);
  Buffer buffer(ChunkPool& pool);
  bool ok() const { return ok_; }
  /// Whether all was read, and nothing is left.
  bool done() const { return ok_ && rest_.empty(); }

 private:
  uint64_t number(size_t count);

  std::span<const uint8_t> rest_;
  bool ok_ = true;
};

}  // namespace sluice
