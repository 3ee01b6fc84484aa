#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "buffer/window_chain.h"
#include "pool/chunk_pool.h"

namespace sluice {

/// The chunks that windows lie in, each once, however many windows there are onto it. Up to eight chunks need no
/// memory; more take a chunk of the thread's current pool, as blocks of windows do. The windows must stay meanwhile.
class ChunkCounter {
 public:
  struct Entry {
    const Chunk* chunk = nullptr;
    uint32_t windows = 0;  ///< Onto it.
    uint64_t bytes = 0;    ///< Of those windows.
  };

  /// Counts a window; returns its chunk's entry, which is valid until the next call. O(1).
  const Entry& add(const Window& window);
  /// Calls `visit(const Entry&)` for each chunk.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    const Entry* entries = table();
    for (size_t i = 0; i < slots(); ++i) {
      if (entries[i].chunk) visit(entries[i]);
    }
  }

 private:
  static constexpr size_t kFew = 8;

  const Entry* table() const { return more_ ? reinterpret_cast<const Entry*>(more_.data()) : few_.data(); }
  Entry* table() { return more_ ? reinterpret_cast<Entry*>(more_.data()) : few_.data(); }
  size_t slots() const { return more_ ? size_t{1} << bits_ : count_; }
  Entry* find(const Chunk* chunk);
  void grow();

  std::array<Entry, kFew> few_;  // In the order of their coming.
  ChunkRef more_;                // Then a hash table, at most half of which is used.
  uint32_t bits_ = 3;
  size_t count_ = 0;
};

}  // namespace sluice
