#include "sluice/thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

namespace {

enum class State { kInUse, kWaiting, kIdle };

struct ThreadPool {
  explicit ThreadPool(const ChunkPool::Options& options) : pool(options) {}

  ChunkPool pool;
  std::optional<ChunkPool::Use> use;  // Set while a thread uses the pool.
  // The fields below are guarded by the registry's mutex.
  State state = State::kInUse;
  size_t out_at_trim = 0;  // Only used in State::kWaiting.
};

struct Registry {
  std::mutex mutex;
  ChunkPool::Options options;
  std::vector<std::unique_ptr<ThreadPool>> pools;
  pthread_key_t at_thread_end{};
};

constinit std::atomic<Registry*> the_registry = nullptr;
constinit thread_local ThreadPool* own = nullptr;

void park(void* parked);

// Never destroyed: threads may end and chunks may be released after the static destructors.
Registry& registry() {
  static Registry* const made = [] {
    Registry* registry = new Registry;
    // A key's destructor runs after those of all thread_local objects, some of which may take or release chunks.
    SLUICE_CHECK(pthread_key_create(&registry->at_thread_end, &park) == 0);
    the_registry.store(registry, std::memory_order_release);
    return registry;
  }();
  return *made;
}

// Does the home thread's work for a pool whose thread has ended. The caller holds the mutex. Memory is returned each
// time the outstanding bytes have halved, so that each chunk is visited only a few times.
void collect_remote_frees(ThreadPool& waiting) {
  waiting.pool.take_remote_frees();
  const size_t out = waiting.pool.out_bytes();
  if (out > 0 && out > waiting.out_at_trim / 2) return;
  waiting.pool.trim_all();
  waiting.out_at_trim = out;
  if (out > 0) return;
  waiting.pool.wake_on_remote_free(false);
  waiting.state = State::kIdle;
}

// Called on the thread that released a chunk of a waiting pool whose list of remote frees was empty. The pool may have
// left State::kWaiting since.
void chunk_released(void* context) {
  ThreadPool& pool = *static_cast<ThreadPool*>(context);
  const std::lock_guard lock(registry().mutex);
  if (pool.state == State::kWaiting) collect_remote_frees(pool);
}

// Runs when a thread ends.
void park(void* parked) {
  ThreadPool& pool = *static_cast<ThreadPool*>(parked);
  own = nullptr;
  pool.use.reset();
  pool.pool.set_pressure(0, 0, nullptr, nullptr);
  const std::lock_guard lock(registry().mutex);
  pool.state = State::kWaiting;
  pool.out_at_trim = SIZE_MAX;
  // The order matters: either collect_remote_frees sees a released chunk, or the releasing thread sees the flag.
  pool.pool.wake_on_remote_free(true);
  collect_remote_frees(pool);
}

ThreadPool& adopt() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const std::unique_ptr<ThreadPool>& pool : all.pools) {
    if (pool->state != State::kIdle) continue;
    pool->state = State::kInUse;
    return *pool;
  }
  ThreadPool& pool = *all.pools.emplace_back(std::make_unique<ThreadPool>(all.options));
  pool.pool.set_wake(&chunk_released, &pool);
  return pool;
}

// Runs at process exit, after the destructors of static objects (which may hold chunks), and leaves alone the pools
// that other threads may still use. The main thread's pool is still in State::kInUse, since the main thread does not
// park its pool.
[[gnu::destructor]] void report_at_exit() {
  Registry* const all = the_registry.load(std::memory_order_acquire);
  if (all == nullptr) return;
  const std::unique_lock lock(all->mutex, std::try_to_lock);
  if (!lock) return;
  for (const std::unique_ptr<ThreadPool>& pool : all->pools) {
    if (pool->state != State::kWaiting && pool.get() != own) continue;
    pool->pool.take_remote_frees();
    pool->pool.report_leaks();
  }
}

}  // namespace

ChunkPool& thread_pool_slow() {
  if (own == nullptr) {
    own = &adopt();
    SLUICE_CHECK(pthread_setspecific(registry().at_thread_end, own) == 0);
  }
  own->use.emplace(&own->pool);
  return own->pool;
}

void set_thread_pool_options(const ChunkPool::Options& options) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.options = options;
}

ThreadPools thread_pools() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  ThreadPools counts;
  for (const std::unique_ptr<ThreadPool>& pool : all.pools) {
    ++(pool->state == State::kInUse ? counts.in_use : pool->state == State::kWaiting ? counts.waiting : counts.idle);
  }
  return counts;
}

}  // namespace sluice::inline v0_1
