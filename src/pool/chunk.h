#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pool/tier.h"

namespace sluice {

class ChunkPool;

/// The header of one piece of memory. It lives outside the data, so that a 4 KiB chunk is 4,096 usable, page-aligned
/// bytes. The reference count is about lifetime only; who may write which bytes is decided by `Lease` and `View`.
///
/// Code outside `src/pool` does not touch the fields: it holds a `ChunkRef`.
struct Chunk {
  std::byte* data;
  ChunkPool* home;  ///< Null for a heap chunk, which belongs to no pool.
  union {
    Chunk* next;      ///< Link in the home's inbox. Only used while nobody holds a reference.
    size_t capacity;  ///< Heap chunks only: they are of any size.
  };
  std::atomic<uint32_t> refs;
  uint8_t tier;
  uint16_t slab;
};
static_assert(sizeof(Chunk) == 32);

/// Usable bytes of a chunk.
inline size_t chunk_capacity(const Chunk& chunk) { return chunk.home ? tier_bytes(chunk.tier) : chunk.capacity; }

/// Takes one more reference. Any thread that holds one may call it.
inline void chunk_ref(Chunk* chunk) { chunk->refs.fetch_add(1, std::memory_order_relaxed); }

/// Whether the caller's reference is the only one. The acquire pairs with other holders' releases, so that after `true`
/// their last accesses have happened.
inline bool chunk_unique(const Chunk* chunk) { return chunk->refs.load(std::memory_order_acquire) == 1; }

/// Returns an unreferenced chunk to its home (or the heap). Cold half of `chunk_unref`.
void chunk_go_home(Chunk* chunk);

/// Drops one reference; the last one sends the chunk home. Any thread.
/// A sole holder needs no read-modify-write: nobody else can take a reference any more.
inline void chunk_unref(Chunk* chunk) {
  if (chunk_unique(chunk) || chunk->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) chunk_go_home(chunk);
}

/// A chunk of `bytes` from the process's heap: the fallback for threads without a pool and for metadata larger than the
/// largest tier. Never null (allocation failure ends the process). Reference count 1.
Chunk* heap_chunk(size_t bytes);

}  // namespace sluice
