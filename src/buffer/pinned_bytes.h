#pragma once

#include <cstddef>

#include "buffer/buffer.h"
#include "buffer/chunk_counter.h"

namespace sluice {

/// What several buffers of one holder, a connection say, keep from being reused together. A chunk that lies in more
/// than one of them counts once. Of a chunk that others hold too it is the holder's fair share: its windows, of all
/// that there are onto the chunk.
///
///     PinnedBytes sum;
///     sum.add(connection.input);
///     sum.add(connection.output);
///     log("this connection pins {} bytes, {} of them wasted", sum.total().bytes, sum.total().wasted);
class PinnedBytes {
 public:
  /// The buffer must not change until total() was asked for the last time.
  void add(const Buffer& buffer);
  Buffer::Pinned total() const;

 private:
  ChunkCounter chunks_;
  size_t block_bytes_ = 0;
};

}  // namespace sluice
