#pragma once

#include <cstddef>
#include <cstdlib>
#include <vector>

namespace sluice {

/// Memory for a library that takes and gives back the same blocks for each stream: what it gives back is kept for the
/// next, so that only the first streams reach the heap.
class BlockCache {
 public:
  BlockCache() = default;
  ~BlockCache() {
    for (Block* const block : free_) std::free(block);
  }
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// Null when there is no memory.
  void* take(size_t bytes);
  /// Of a block that take() gave, or null.
  void give(void* memory);

  /// Of all blocks, those that are kept among them.
  size_t total_bytes() const { return total_bytes_; }

 private:
  struct alignas(std::max_align_t) Block {
    size_t bytes;
  };

  std::vector<Block*> free_;
  size_t total_bytes_ = 0;
};

}  // namespace sluice
