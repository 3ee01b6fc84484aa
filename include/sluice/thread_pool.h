#pragma once

#include <cstddef>

#include "sluice/chunk_pool.h"

namespace sluice::inline v0_1 {

// Pools for threads that are not workers.
//
// Thread safety: thread_pool(), set_thread_pool_options() and thread_pools() may be called on any thread at any time. A
// pool belongs to the thread that got it, and no other thread may call it. A chunk may be released on any thread at any
// time, including after the thread that took it has ended, and on threads without a pool.
//
// When a thread ends, its pool is parked and returns its free memory to the system. Once all its chunks are released,
// the pool is reused for the next thread that needs one. Until then it waits in a registry, and the threads that
// release its chunks do the work of the home thread. A pool is never destroyed. Outstanding chunks are reported at
// process exit as in ~ChunkPool, including those of the main thread but not those of threads still running.

ChunkPool& thread_pool_slow();

/// Returns the current pool of this thread. If there is none, it makes a pool of the thread's own current until the
/// thread ends (or until the end of a ChunkPool::Use around the call). Do not call set_wake on it: the registry
/// uses the wake callback. A callback from set_pressure is removed when the thread ends. Call this function wherever
/// chunks are taken instead of keeping the reference.
///
///     std::thread([] { Lease lease = Lease::allocate(thread_pool(), 1500); ... });
inline ChunkPool& thread_pool() {
  if (ChunkPool* pool = ChunkPool::current()) [[likely]]
    return *pool;
  return thread_pool_slow();
}

/// Sets the options of pools created from now on; existing pools keep theirs. Call it before the first use.
void set_thread_pool_options(const ChunkPool::Options& options);

/// The states of all pools that thread_pool() created.
struct ThreadPools {
  size_t in_use = 0;   ///< Pools that belong to a thread.
  size_t waiting = 0;  ///< Pools whose thread has ended and that have outstanding chunks.
  size_t idle = 0;     ///< Pools without outstanding chunks, ready for the next thread.
};
ThreadPools thread_pools();

}  // namespace sluice::inline v0_1
