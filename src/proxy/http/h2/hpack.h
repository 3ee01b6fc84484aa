#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer/buffer.h"
#include "buffer/lease.h"
#include "pool/chunk_pool.h"
#include "proxy/http/h2/header_block.h"
#include "proxy/http/message/head.h"

struct nghttp2_hd_deflater;
struct nghttp2_hd_inflater;

namespace sluice {

// HPACK (RFC 7541), by libnghttp2's coder. Its tables lie in chunks of the current pool, and are made when they are
// first needed.

/// What both sides' dynamic tables hold at most: the protocol's default, which no SETTINGS of ours changes.
inline constexpr uint32_t kHpackTableBytes = 4096;

class HpackDecoder {
 public:
  enum class Status : uint8_t {
    kGood,
    kBroken,    ///< COMPRESSION_ERROR.
    kTooLarge,  ///< Http2HeaderBlock::add was.
  };

  HpackDecoder() = default;
  ~HpackDecoder() { forget(); }
  HpackDecoder(const HpackDecoder&) = delete;
  HpackDecoder& operator=(const HpackDecoder&) = delete;

  /// Reads the next fragment of a header block, `last` the one that ends it.
  Status decode(ChunkPool& pool, const Http2Limits& limits, const Buffer& fragment, bool last, Http2HeaderBlock& block);
  /// Packs the table into as few bytes as hold it. Precondition: not within a block.
  void park(ChunkPool& pool);
  size_t parked_bytes() const { return parked_.size(); }
  /// Whether there are tables, rather than what they can be made from.
  bool live() const { return inflater_ != nullptr; }

 private:
  void wake();
  void forget();

  nghttp2_hd_inflater* inflater_ = nullptr;
  Lease parked_;  // A header block that makes the table again.
};

class HpackEncoder {
 public:
  HpackEncoder() = default;
  ~HpackEncoder() { forget(); }
  HpackEncoder(const HpackEncoder&) = delete;
  HpackEncoder& operator=(const HpackEncoder&) = delete;

  /// What the peer's table may hold (SETTINGS_HEADER_TABLE_SIZE); we use kHpackTableBytes of it at most. `smallest`: of
  /// all values since the last block.
  void set_table_bytes(uint32_t smallest, uint32_t bytes);

  /// Appends a request's, a response's or a trailer section's header block in frames: HEADERS, and CONTINUATION where
  /// it takes several. Of the fields those are left out that HTTP/2 does not have.
  void encode_head(ChunkPool& pool, const Head& head, uint32_t stream, bool end, Buffer& to);
  void encode_trailers(ChunkPool& pool, const Fields& trailers, uint32_t stream, Buffer& to);

  /// Gives back the table; the next block begins with an empty one, as it tells the peer.
  void park() { forget(); }
  bool live() const { return deflater_ != nullptr; }

 private:
  class Block;
  void wake();
  void forget();

  nghttp2_hd_deflater* deflater_ = nullptr;
  uint32_t table_bytes_ = kHpackTableBytes;
  bool used_ = false;  // The peer's table may hold something.
};

}  // namespace sluice
