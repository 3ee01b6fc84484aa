#pragma once

#include <cstddef>

#include "pool/chunk_pool.h"

namespace sluice {

// Pools for threads that are no workers.
//
// What is thread-safe: thread_pool(), set_thread_pool_options() and thread_pools() may be called on any thread at any
// time. The pool itself belongs to the thread that got it, and no other may call it; but a chunk may be released on any
// thread, at any time, also after the thread that took it has ended, and on threads that have no pool.
//
// When a thread ends, its pool is parked: its free memory goes back to the system. With all chunks home it is then
// given to the next thread that asks; otherwise it waits for them in a registry, where the threads that release them
// take the home's part. A pool is never destroyed. What is still out when the process ends is reported as by
// ~ChunkPool, the main thread's chunks included; those of threads that still run are not.

ChunkPool& thread_pool_slow();

/// The current pool of this thread. If there is none, one of the thread's own, which is then current until the thread
/// ends (or until the end of a ChunkPool::Use around the call). Its set_wake is taken, and what set_pressure set ends
/// with the thread. Call it where chunks are taken, rather than keep the reference.
///
///     std::thread([] { Lease lease = Lease::allocate(thread_pool(), 1500); ... });
inline ChunkPool& thread_pool() {
  if (ChunkPool* pool = ChunkPool::current()) [[likely]]
    return *pool;
  return thread_pool_slow();
}

/// The options of pools that are made from now on; those there are keep theirs. Set them before the first use.
void set_thread_pool_options(const ChunkPool::Options& options);

/// What became of all pools that thread_pool() ever made.
struct ThreadPools {
  size_t in_use = 0;   ///< Belong to a thread.
  size_t waiting = 0;  ///< Their thread has ended, and some of their chunks are out.
  size_t idle = 0;     ///< All chunks are home; for the next thread.
};
ThreadPools thread_pools();

}  // namespace sluice
