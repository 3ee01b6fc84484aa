#pragma once

#include <cstddef>

#include "sluice/buffer.h"
#include "sluice/internal/chunk_counter.h"

namespace sluice::inline v0_1 {

/// Adds up the memory that several buffers of one holder, such as a connection, pin together. A chunk that lies in
/// several of them counts once. A chunk with other holders counts with the holder's fair share: its windows in
/// proportion to all windows onto the chunk.
///
///     PinnedBytes sum;
///     sum.add(connection.input);
///     sum.add(connection.output);
///     log("this connection pins {} bytes, {} of them wasted", sum.total().bytes, sum.total().wasted);
class PinnedBytes {
 public:
  /// The buffer must not change until the last call of total().
  void add(const Buffer& buffer);
  Buffer::Pinned total() const;

 private:
  ChunkCounter chunks_;
  size_t block_bytes_ = 0;
};

}  // namespace sluice::inline v0_1
