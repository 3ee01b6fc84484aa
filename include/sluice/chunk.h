#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sluice/tier.h"

namespace sluice::inline v0_1 {

class ChunkPool;

/// What happens to a chunk when its last reference is dropped, and whether its bytes may be written.
enum class ChunkKind : uint8_t {
  kPooled,    ///< Returned to its home pool.
  kHeap,      ///< One heap allocation that also holds the header.
  kExternal,  ///< Memory that the pool does not own, given back through a ReleaseFunction.
  kReadOnly,  ///< Like kExternal, but nobody may write to it, not even its only holder.
};

/// The header of one piece of memory. It lives outside the data, so that a 4 KiB chunk has 4,096 usable, page-aligned
/// bytes. The reference count covers lifetime only; `Lease` and `View` decide who may write which bytes.
///
/// Code outside the pools does not touch the fields: it holds a `ChunkRef`.
struct Chunk {
  std::byte* data;
  ChunkPool* home;  ///< Null for a chunk that belongs to no pool.
  union {
    Chunk* next;      ///< Link in the home pool's list of remote frees. Valid only while the chunk has no references.
    size_t capacity;  ///< Size of a chunk without a home, which can be any size.
  };
  std::atomic<uint32_t> refs;
  uint8_t tier;
  ChunkKind kind;
  uint16_t slab;
};
static_assert(sizeof(Chunk) == 32);

/// Usable bytes of a chunk.
inline size_t chunk_capacity(const Chunk& chunk) { return chunk.home ? tier_bytes(chunk.tier) : chunk.capacity; }

/// Adds a reference. The caller holds one already, and no other thread uses that reference at the same time. A sole
/// holder needs no read-modify-write: no other thread can add or drop a reference.
///
/// The plain store ends the release sequences of the former holders' decrements, so who later finds itself the sole
/// holder would not synchronize with them. The acquire load makes up for it: it does here, and what this thread
/// releases later includes it.
inline void chunk_ref(Chunk* chunk) {
  if (chunk->refs.load(std::memory_order_acquire) == 1) {
    chunk->refs.store(2, std::memory_order_relaxed);
  } else {
    chunk->refs.fetch_add(1, std::memory_order_relaxed);
  }
}

/// Whether the caller's reference is the only one. The acquire load pairs with the releases of other holders: once this
/// returns true, their last accesses have happened.
inline bool chunk_unique(const Chunk* chunk) { return chunk->refs.load(std::memory_order_acquire) == 1; }

/// Whether the caller's reference is the only one and the memory is writable.
inline bool chunk_writable(const Chunk* chunk) { return chunk_unique(chunk) && chunk->kind != ChunkKind::kReadOnly; }

/// Returns an unreferenced chunk to its home pool or, if it has none, frees it. The cold half of `chunk_unref`, defined
/// by the pool.
void chunk_return(Chunk* chunk);
/// Frees an unreferenced chunk that has no home. Called by chunk_return only.
void free_unpooled_chunk(Chunk* chunk);

/// Drops a reference. The last one returns the chunk to its home pool. Callable on any thread. A sole holder needs no
/// read-modify-write: no other thread can add a reference.
inline void chunk_unref(Chunk* chunk) {
  if (chunk_unique(chunk) || chunk->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) chunk_return(chunk);
}

/// Allocates a chunk of `bytes` from the process heap: the fallback for threads without a pool and for metadata larger
/// than the largest tier. Never null: allocation failure ends the process. The reference count is 1. Precondition:
/// bytes < 2^31.
Chunk* heap_chunk(size_t bytes);
/// Like heap_chunk, but returns null when there is no memory. Meant for large chunks.
Chunk* try_heap_chunk(size_t bytes);

/// Gives adopted memory back to its owner. Called once, on the thread that drops the last reference.
using ReleaseFunction = void (*)(void* context, std::byte* data, size_t bytes);

/// Creates a chunk over memory that the caller provides. The memory must stay valid until `release` is called;
/// `release` may be null. Never null. The reference count is 1. Precondition: bytes < 2^31.
Chunk* external_chunk(std::byte* data, size_t bytes, ChunkKind kind, ReleaseFunction release, void* context);

}  // namespace sluice::inline v0_1
