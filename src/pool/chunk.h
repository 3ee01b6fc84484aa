#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pool/tier.h"

namespace sluice {

class ChunkPool;

/// What becomes of a chunk when nobody refers to it any more, and whether its bytes may be written.
enum class ChunkKind : uint8_t {
  kPooled,    ///< Goes home to its pool.
  kHeap,      ///< One allocation with its header.
  kExternal,  ///< Somebody else's memory, given back by a function.
  kReadOnly,  ///< The same, and nobody may write to it, not even its only holder.
};

/// The header of one piece of memory. It lives outside the data, so that a 4 KiB chunk is 4,096 usable, page-aligned
/// bytes. The reference count is about lifetime only; who may write which bytes is decided by `Lease` and `View`.
///
/// Code outside `src/pool` does not touch the fields: it holds a `ChunkRef`.
struct Chunk {
  std::byte* data;
  ChunkPool* home;  ///< Null for a chunk that belongs to no pool.
  union {
    Chunk* next;      ///< Link in the home's remote_frees. Only used while nobody holds a reference.
    size_t capacity;  ///< Chunks without a home: they are of any size.
  };
  std::atomic<uint32_t> refs;
  uint8_t tier;
  ChunkKind kind;
  uint16_t slab;
};
static_assert(sizeof(Chunk) == 32);

/// Usable bytes of a chunk.
inline size_t chunk_capacity(const Chunk& chunk) { return chunk.home ? tier_bytes(chunk.tier) : chunk.capacity; }

/// Takes one more reference for the holder of one, which no other thread uses at the same time. A sole holder needs no
/// read-modify-write: nobody else can take a reference, or drop one.
inline void chunk_ref(Chunk* chunk) {
  if (chunk->refs.load(std::memory_order_relaxed) == 1) {
    chunk->refs.store(2, std::memory_order_relaxed);
  } else {
    chunk->refs.fetch_add(1, std::memory_order_relaxed);
  }
}

/// Whether the caller's reference is the only one. The acquire pairs with other holders' releases, so that after `true`
/// their last accesses have happened.
inline bool chunk_unique(const Chunk* chunk) { return chunk->refs.load(std::memory_order_acquire) == 1; }

/// Whether the caller's reference is the only one and its bytes are memory that may be written.
inline bool chunk_writable(const Chunk* chunk) { return chunk_unique(chunk) && chunk->kind != ChunkKind::kReadOnly; }

/// Returns an unreferenced chunk to its home (or the heap). Cold half of `chunk_unref`.
void chunk_go_home(Chunk* chunk);

/// Drops one reference; the last one sends the chunk home. Any thread.
/// A sole holder needs no read-modify-write: nobody else can take a reference any more.
inline void chunk_unref(Chunk* chunk) {
  if (chunk_unique(chunk) || chunk->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) chunk_go_home(chunk);
}

/// A chunk of `bytes` from the process's heap: the fallback for threads without a pool and for metadata larger than the
/// largest tier. Never null (allocation failure ends the process). Reference count 1. Precondition: bytes < 2^31.
Chunk* heap_chunk(size_t bytes);
/// The same for much: null when there is no memory.
Chunk* try_heap_chunk(size_t bytes);

/// Gives adopted memory back. Called once, on the thread that drops the last reference.
using ReleaseFunction = void (*)(void* context, std::byte* data, size_t bytes);

/// A chunk over memory of somebody else, kept as it is until `release` (which may be null) gets it back. Never null.
/// Reference count 1. Precondition: bytes < 2^31.
Chunk* external_chunk(std::byte* data, size_t bytes, ChunkKind kind, ReleaseFunction release, void* context);

}  // namespace sluice
