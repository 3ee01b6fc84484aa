#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "proxy/http/h2/header_block.h"
#include "proxy/http/h2/hpack_table.h"
#include "proxy/http/h2/limits.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"
#include "sluice/lease.h"

namespace sluice {

/// The decoder of HPACK (RFC 7541) for one direction of a connection. Its table lies in chunks of the pool.
class HpackDecoder {
 public:
  enum class Status : uint8_t {
    kGood,
    kBroken,    ///< COMPRESSION_ERROR.
    kTooLarge,  ///< Http2HeaderBlock::add() returned false, or a string is too long.
  };

  HpackDecoder() = default;
  HpackDecoder(const HpackDecoder&) = delete;
  HpackDecoder& operator=(const HpackDecoder&) = delete;

  /// Decodes the next fragment of a header block, and adds its fields to `block`; `last` marks the final one. What is
  /// not kGood ends the connection: nothing can be decoded afterwards.
  Status decode(ChunkPool& pool, const Http2Limits& limits, const Buffer& fragment, bool last, Http2HeaderBlock& block);
  /// Packs the table into the smallest sufficient chunk. Precondition: not within a block.
  void park(ChunkPool& pool);
  size_t parked_bytes() const { return kept_.size(); }
  /// Of a parked decoder: a header block that rebuilds the table, in HPACK. Empty for an empty table.
  std::span<const std::byte> parked_block() const { return kept_.bytes(); }
  /// Continues with the table of another decoder. `block`: its parked_block(). False if it is malformed. Precondition:
  /// nothing was decoded.
  bool restore(ChunkPool& pool, std::span<const std::byte> block);
  /// The same for a block of this process, which is not examined.
  void restore_parked(ChunkPool& pool, std::span<const std::byte> block);
  /// Whether there is a table, rather than a packed form or nothing.
  bool live() const { return table_.live(); }

 private:
  template <class Emit>
  Status take_fields(ChunkPool& pool, size_t most_chars, std::span<const uint8_t> bytes, size_t& taken, Emit emit);
  template <class Emit>
  Status take_literal(ChunkPool& pool, size_t most_chars, std::span<const uint8_t> bytes, size_t& taken, Emit emit);
  template <class Emit>
  Status take_window(ChunkPool& pool, size_t most_chars, std::span<const std::byte> window, Emit emit);
  bool replay(ChunkPool& pool, std::span<const std::byte> block);
  void keep(ChunkPool& pool, std::span<const std::byte> bytes);
  void wake(ChunkPool& pool);

  HpackTable table_;
  Lease kept_;              // Parked: a header block that rebuilds the table. Within a block: the begin of a field.
  bool in_block_ = false;   // A part of a block was decoded.
  bool has_field_ = false;  // So was a field of it: the table's size cannot change any more.
};

}  // namespace sluice
