#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "alts_like/secret_bytes.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

// The serialized state of a record layer, from which another process of this program can resume it: the format version,
// the protocol, and the state of that protocol's layer. Numbers are big-endian; byte strings follow their length. It
// contains keys, so the caller must protect it like them and wipe it.
//
//     SecretBytes bytes;
//     if (layer->write_state(bytes)) hand_over(bytes);           // the layer must not be used afterwards
//     ...
//     std::unique_ptr<RecordLayer> layer = read_record_layer(pool, bytes);   // read_record_layer.h

inline constexpr uint8_t kRecordStateVersion = 1;
/// Bound on a serialized state. A record of any protocol, the bytes that follow a handshake, and tickets fit well.
inline constexpr size_t kMaxRecordStateBytes = size_t{2} << 20;

enum class RecordProtocol : uint8_t { kPlain = 0, kTls13 = 1, kAlts = 2, kTls12 = 3 };

/// Appends the serialized state of a record layer to `out`, which must outlive it.
class StateWriter {
 public:
  /// Appends values only.
  explicit StateWriter(SecretBytes& out) : out_(out), begin_(out.size()) {}
  /// Begins the state of a record layer: appends the version and the protocol.
  StateWriter(SecretBytes& out, RecordProtocol protocol);
  void u8(uint8_t value) { out_.push_back(value); }
  void u16(uint16_t value) { number(value, 2); }
  void u32(uint32_t value) { number(value, 4); }
  void u64(uint64_t value) { number(value, 8); }
  /// Without a length.
  void bytes(std::span<const uint8_t> bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  void buffer(const Buffer& buffer);
  void text(std::string_view text);
  /// Finishes the state. False if it exceeds kMaxRecordStateBytes; everything appended is then removed.
  bool done();

 private:
  void number(uint64_t value, size_t bytes);

  SecretBytes& out_;
  const size_t begin_;
};

/// Reads a serialized state. A read past the end returns zeros and makes ok() false for good.
class StateReader {
 public:
  explicit StateReader(std::span<const uint8_t> bytes) : rest_(bytes) {}
  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  /// Empty if fewer than `count` bytes are left.
  std::span<const uint8_t> bytes(size_t count);
  Buffer buffer(ChunkPool& pool);
  /// Valid as long as the bytes that are read.
  std::string_view text();
  bool ok() const { return ok_; }
  /// Whether every read succeeded and nothing is left.
  bool done() const { return ok_ && rest_.empty(); }

 private:
  uint64_t number(size_t count);

  std::span<const uint8_t> rest_;
  bool ok_ = true;
};

}  // namespace sluice
