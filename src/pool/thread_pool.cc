#include "pool/thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "pool/check.h"

namespace sluice {

namespace {

enum class State { kInUse, kWaiting, kIdle };

struct ThreadPool {
  explicit ThreadPool(const ChunkPool::Options& options) : pool(options) {}

  ChunkPool pool;
  std::optional<ChunkPool::Use> use;  // While a thread has it.
  // The rest is guarded by the registry's mutex.
  State state = State::kInUse;
  size_t out_at_trim = 0;  // While it waits.
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

// Never destroyed: threads may end, and chunks come home, after the static destructors.
Registry& registry() {
  static Registry* const made = [] {
    Registry* registry = new Registry;
    // Unlike a thread_local object's destructor, a key's runs behind all of those, some of which may release chunks or
    // ask for some.
    SLUICE_CHECK(pthread_key_create(&registry->at_thread_end, &park) == 0);
    the_registry.store(registry, std::memory_order_release);
    return registry;
  }();
  return *made;
}

// With the mutex held: does the home's part for a pool whose thread has ended. The memory goes back each time that half
// of what was out is home, so that each chunk is looked at a few times only.
void come_home(ThreadPool& waiting) {
  waiting.pool.take_remote_frees();
  const size_t out = waiting.pool.out_bytes();
  if (out > 0 && out > waiting.out_at_trim / 2) return;
  waiting.pool.trim_all();
  waiting.out_at_trim = out;
  if (out > 0) return;
  waiting.pool.wake_on_return(false);
  waiting.state = State::kIdle;
}

// Called on the thread that released a chunk of a waiting pool whose remote_frees was empty, or of one that was waiting
// just now.
void chunk_released(void* context) {
  ThreadPool& pool = *static_cast<ThreadPool*>(context);
  const std::lock_guard lock(registry().mutex);
  if (pool.state == State::kWaiting) come_home(pool);
}

// The thread ends.
void park(void* parked) {
  ThreadPool& pool = *static_cast<ThreadPool*>(parked);
  own = nullptr;
  pool.use.reset();
  pool.pool.set_pressure(0, 0, nullptr, nullptr);
  const std::lock_guard lock(registry().mutex);
  pool.state = State::kWaiting;
  pool.out_at_trim = SIZE_MAX;
  // In this order: either we see a chunk, or who released it sees that we want to hear of it.
  pool.pool.wake_on_return(true);
  come_home(pool);
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

// Runs when the process ends, behind the destructors of static objects (which may hold chunks) and without ending pools
// that others may still use. The main thread's is among those in use: no thread's end has parked it.
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

}  // namespace sluice
