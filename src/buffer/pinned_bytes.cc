#include "sluice/pinned_bytes.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace sluice::inline v0_1 {

void PinnedBytes::add(const Buffer& buffer) {
  block_bytes_ += buffer.windows_.block_bytes();
  for (const Window& window : buffer.windows_) chunks_.add(window);
}

Buffer::Pinned PinnedBytes::total() const {
  Buffer::Pinned pinned{block_bytes_, block_bytes_};
  chunks_.for_each([&](const ChunkCounter::Entry& entry) {
    const uint64_t capacity = chunk_capacity(*entry.chunk);
    // Other threads may be dropping references, and one holder's windows may overlap.
    const uint64_t holders = std::max(entry.chunk->refs.load(std::memory_order_relaxed), entry.windows);
    const uint64_t share = capacity * entry.windows / holders;
    const uint64_t reached = std::min(entry.bytes, capacity);
    pinned.bytes += std::max(reached, share);
    pinned.wasted += share > reached ? share - reached : 0;
  });
  return pinned;
}

}  // namespace sluice::inline v0_1
