#pragma once

#include <cstddef>
#include <cstdint>

#include "proxy/http/h2/hpack_table.h"
#include "proxy/http/message/head.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// The encoder of HPACK (RFC 7541).
class HpackEncoder {
 public:
  HpackEncoder() = default;
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
  void park();
  uint32_t table_bytes() const { return static_cast<uint32_t>(table_.most_bytes()); }
  /// Continues after another encoder, whose `table_bytes` it takes: the next block begins with an empty table and
  /// signals that to the peer. Precondition: nothing was encoded.
  void restore(uint32_t table_bytes) { set_table_bytes(0, table_bytes); }

 private:
  class Block;

  HpackTable table_;
  uint16_t announced_bytes_ = kHpackTableBytes;  // The size of the table as the peer knows it.
  uint16_t smallest_bytes_ = kHpackTableBytes;   // The smallest size since the last block.
};

}  // namespace sluice
