#include "proxy/compression/block_cache.h"

#include <algorithm>

namespace sluice {

void* BlockCache::take(size_t bytes) {
  // Best fit, but at most about twice as large as needed.
  size_t best = free_.size();
  for (size_t i = 0; i < free_.size(); ++i) {
    const bool fits = free_[i]->bytes >= bytes && free_[i]->bytes / 2 <= bytes;
    if (fits && (best == free_.size() || free_[i]->bytes < free_[best]->bytes)) best = i;
  }
  if (best < free_.size()) {
    std::swap(free_[best], free_.back());
    Block* const block = free_.back();
    free_.pop_back();
    return block + 1;
  }
  void* const memory = std::malloc(sizeof(Block) + bytes);
  if (!memory) return nullptr;
  total_bytes_ += bytes;
  return new (memory) Block{bytes} + 1;
}

void BlockCache::give(void* memory) {
  if (memory) free_.push_back(static_cast<Block*>(memory) - 1);
}

}  // namespace sluice
