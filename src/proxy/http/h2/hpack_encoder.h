#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "proxy/http/h2/hpack_table.h"
#include "proxy/http/message/head.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

struct nghttp2_hd_deflater;

namespace sluice {

/// The encoder of HPACK (RFC 7541): libnghttp2's. Its table lies in chunks of the current pool, and is created on first
/// use.
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
