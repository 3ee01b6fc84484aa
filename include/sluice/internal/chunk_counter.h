#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sluice/chunk_pool.h"
#include "sluice/internal/window_chain.h"

namespace sluice::inline v0_1 {

/// Counts the chunks behind a set of windows, each once. Up to eight chunks need no memory; more take a chunk of the
/// thread's current pool, as window blocks do. The windows must stay valid while the counter is in use.
class ChunkCounter {
 public:
  struct Entry {
    const Chunk* chunk = nullptr;
    uint32_t windows = 0;  ///< Counted windows onto the chunk.
    uint64_t bytes = 0;    ///< Total size of those windows.
  };

  /// Counts a window and returns its chunk's entry, which is valid until the next call. O(1).
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

  std::array<Entry, kFew> few_;  // In order of insertion.
  ChunkRef more_;                // Replaces few_: a hash table, at most half full.
  uint32_t bits_ = 3;
  size_t count_ = 0;
};

}  // namespace sluice::inline v0_1
