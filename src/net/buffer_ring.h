#pragma once

#include <liburing.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "net/ring.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// One pool tier posted to the kernel as a group of provided buffers. The ring and the pool outlive it.
///
/// Chunks are replaced, not lent: a chunk that a completion finishes moves into the `Buffer`, and `refill` posts
/// another pool chunk under the same id. A slow consumer can therefore exhaust the pool's budget but never the ring,
/// and only the home worker touches the ring's tail. `slots_` maps ids to chunks. Posted entries are never read back,
/// because the kernel edits them in incremental mode.
///
/// With `incremental`, the kernel fills a chunk piece by piece, across all sockets of the group. Each piece is an
/// exclusive window, and the chunk stays posted until it is full.
class BufferRing {
 public:
  struct Options {
    uint16_t group;
    uint16_t entries;          ///< Chunks to post, a power of two, at most 32,768.
    uint16_t max_entries = 0;  ///< Chunks to post after calls of grow(), such a number too. 0: `entries`.
    size_t chunk_bytes;        ///< A tier's size.
    bool incremental = false;  ///< IOU_PBUF_RING_INC, Linux 6.12.
    bool reserved = false;     ///< Chunks may come from the pool's reserve.
    uint32_t min_left = 0;  ///< Incremental: retire a chunk with fewer bytes left. 0 if the kernel lacks this feature.
  };
  static absl::StatusOr<std::unique_ptr<BufferRing>> open(Ring& ring, ChunkPool& pool, Options options);
  /// Unregisters the group and releases the posted chunks.
  ~BufferRing();
  BufferRing(const BufferRing&) = delete;
  BufferRing& operator=(const BufferRing&) = delete;

  uint16_t group() const { return options_.group; }
  bool incremental() const { return options_.incremental; }

  /// Moves the bytes of a receive completion to the end of `to`. Call it for every completion with a buffer, in queue
  /// order and before any other decision: offsets in a posted chunk follow from that order.
  void take(const Completion& completion, Buffer& to);

  /// Posts chunks until as many are posted as should be, as far as the pool's budget allows. True if they are.
  bool refill();
  /// Doubles the number of chunks to post, up to Options::max_entries. For a burst: each receive in a turn needs one.
  void grow() { wanted_ = static_cast<uint16_t>(std::min<size_t>(2 * size_t{wanted_}, slots_.size())); }
  /// Undoes all calls of grow(), and withdraws the posted chunks if there are more than Options::entries; refill()
  /// posts fewer then. While completions wait to be reaped, chunks are not withdrawn. Call it again later.
  void shrink();
  /// The number of chunks to post.
  size_t wanted_slots() const { return wanted_; }
  /// Chunks that refill() would post.
  size_t empty_slots() const { return wanted_ - std::min<size_t>(wanted_, filled_slots()); }
  size_t filled_slots() const { return slots_.size() - empty_.size(); }
  size_t chunk_bytes() const { return options_.chunk_bytes; }
  size_t posted_bytes() const { return filled_slots() * options_.chunk_bytes; }

 private:
  struct Slot {
    Chunk* chunk = nullptr;
    uint32_t used = 0;      // Incremental: bytes of the chunk delivered so far.
    uint16_t position = 0;  // Ring position of the id's last post.
  };

  BufferRing(Ring& ring, ChunkPool& pool, Options options) : ring_(ring), pool_(pool), options_(options) {}
  int register_group();
  void unregister_group();
  uint32_t take_from(uint16_t id, uint32_t bytes, bool more, Buffer& to);

  Ring& ring_;
  ChunkPool& pool_;
  Options options_;
  uint16_t wanted_ = 0;
  io_uring_buf_ring* shared_ = nullptr;  // Mapped. The kernel reads it and, in incremental mode, edits it.
  size_t shared_bytes_ = 0;
  bool registered_ = false;
  uint16_t tail_ = 0;
  std::vector<Slot> slots_;      // By buffer id.
  std::vector<uint16_t> id_at_;  // Buffer id by ring position: a bundle names only its first buffer.
  std::vector<uint16_t> empty_;  // Ids without a chunk.
};

}  // namespace sluice
