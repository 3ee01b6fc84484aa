#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "proxy/http/h2/header_block.h"
#include "proxy/http/message/head.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"
#include "sluice/lease.h"

struct nghttp2_hd_deflater;
struct nghttp2_hd_inflater;

namespace sluice {

// HPACK (RFC 7541), with libnghttp2's coder. The tables lie in chunks of the current pool and are created on first use.

/// The maximum size of both sides' dynamic tables: the protocol's default, which our SETTINGS keep.
inline constexpr uint32_t kHpackTableBytes = 4096;

class HpackDecoder {
 public:
  enum class Status : uint8_t {
    kGood,
    kBroken,    ///< COMPRESSION_ERROR.
    kTooLarge,  ///< Http2HeaderBlock::add() returned false, or a string is too long.
  };

  HpackDecoder() = default;
  ~HpackDecoder() { forget(); }
  HpackDecoder(const HpackDecoder&) = delete;
  HpackDecoder& operator=(const HpackDecoder&) = delete;

  /// Decodes the next fragment of a header block; `last` marks the final one.
  Status decode(ChunkPool& pool, const Http2Limits& limits, const Buffer& fragment, bool last, Http2HeaderBlock& block);
  /// Packs the table into the smallest sufficient chunk. Precondition: not within a block.
  void park(ChunkPool& pool);
  size_t parked_bytes() const { return parked_.size(); }
  /// Of a parked decoder: a header block that rebuilds the table, in HPACK. Empty for an empty table.
  std::span<const std::byte> parked_block() const { return parked_.bytes(); }
  /// Continues with the table of another decoder. `block`: its parked_block(). False if it is malformed. Precondition:
  /// nothing was decoded.
  bool restore(ChunkPool& pool, std::span<const std::byte> block);
  /// The same for a block of this process, which is not examined.
  void restore_parked(ChunkPool& pool, std::span<const std::byte> block);
  /// Whether the tables exist, rather than a packed form or nothing.
  bool live() const { return inflater_ != nullptr; }

 private:
  void wake();
  void forget();

  nghttp2_hd_inflater* inflater_ = nullptr;
  Lease parked_;  // A header block that rebuilds the table.
};

class HpackEncoder {
 public:
  HpackEncoder() = default;
  ~HpackEncoder() { forget(); }
  HpackEncoder(const HpackEncoder&) = delete;
  HpackEncoder& operator=(const HpackEncoder&) = delete;

  /// Sets the size of the peer's table (SETTINGS_HEADER_TABLE_SIZE), of which we use at most kHpackTableBytes.
  /// `smallest` is the smallest value since the last block.
  void set_table_bytes(uint32_t smallest, uint32_t bytes);

  /// Appends the header block of a request, a response or a trailer section as frames: HEADERS, plus CONTINUATION if
  /// one is not enough. Fields that do not exist in HTTP/2 are left out.
  void encode_head(ChunkPool& pool, const Head& head, uint32_t stream, bool end, Buffer& to);
  void encode_trailers(ChunkPool& pool, const Fields& trailers, uint32_t stream, Buffer& to);

  /// Frees the table. The next block begins with an empty one and signals that to the peer.
  void park() { forget(); }
  bool live() const { return deflater_ != nullptr; }
  uint32_t table_bytes() const { return table_bytes_; }
  /// Continues after another encoder, whose `table_bytes` it takes: the next block begins with an empty table and
  /// signals that to the peer. Precondition: nothing was encoded.
  void restore(uint32_t table_bytes) {
    table_bytes_ = std::min(table_bytes, kHpackTableBytes);
    used_ = true;
  }

 private:
  class Block;
  void wake();
  void forget();

  nghttp2_hd_deflater* deflater_ = nullptr;
  uint32_t table_bytes_ = kHpackTableBytes;
  bool used_ = false;  // The peer's table may have entries.
};

}  // namespace sluice
