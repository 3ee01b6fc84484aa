#pragma once

#include <cstddef>
#include <cstdlib>
#include <vector>

namespace sluice {

/// An allocator for a library that takes and frees the same block sizes for each stream. Freed blocks are kept for the
/// next stream, so only the first streams use the heap.
class BlockCache {
 public:
  BlockCache() = default;
  ~BlockCache() {
    for (Block* const block : free_) std::free(block);
  }
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// Returns null if memory is exhausted.
  void* take(size_t bytes);
  /// Returns a block from take(), or null, to the cache.
  void give(void* memory);

  /// The size of all blocks, including cached ones.
  size_t total_bytes() const { return total_bytes_; }

 private:
  struct alignas(std::max_align_t) Block {
    size_t bytes;
  };

  std::vector<Block*> free_;
  size_t total_bytes_ = 0;
};

}  // namespace sluice
