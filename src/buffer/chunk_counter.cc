#include "sluice/internal/chunk_counter.h"

#include <new>
#include <utility>

namespace sluice::inline v0_1 {

const ChunkCounter::Entry& ChunkCounter::add(const Window& window) {
  Entry* entry = find(window.chunk);
  if (!entry) {
    grow();
    entry = find(window.chunk);
  }
  if (!entry->chunk) {
    ++count_;
    entry->chunk = window.chunk;
  }
  ++entry->windows;
  entry->bytes += window.size;
  return *entry;
}

// Returns the chunk's entry, an empty entry for it, or null if there is no room for another.
ChunkCounter::Entry* ChunkCounter::find(const Chunk* chunk) {
  Entry* const entries = table();
  if (!more_) {
    size_t i = 0;
    while (i < count_ && entries[i].chunk != chunk) ++i;
    return i < kFew ? &entries[i] : nullptr;
  }
  const uint64_t hash = reinterpret_cast<uintptr_t>(chunk) * 0x9e3779b97f4a7c15u;
  for (size_t i = hash >> (64 - bits_);; i = (i + 1) & (slots() - 1)) {
    if (entries[i].chunk == chunk) return &entries[i];
    if (!entries[i].chunk) return 2 * count_ < slots() ? &entries[i] : nullptr;
  }
}

void ChunkCounter::grow() {
  ChunkCounter larger;
  larger.bits_ = more_ ? bits_ + 1 : 5;
  const size_t bytes = sizeof(Entry) << larger.bits_;
  ChunkPool* const pool = ChunkPool::current();
  larger.more_ = ChunkRef::take(pool ? pool->get_metadata(bytes) : heap_chunk(bytes));
  Entry* const entries = larger.table();
  for (size_t i = 0; i < larger.slots(); ++i) new (&entries[i]) Entry{};
  for_each([&](const Entry& entry) { *larger.find(entry.chunk) = entry; });
  more_ = std::move(larger.more_);
  bits_ = larger.bits_;
}

}  // namespace sluice::inline v0_1
