// The buffer library: what a chunk costs beside malloc, and what it costs to pass bytes on without copying them.
//
//   build/release/bench/iobuf_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
//
// The column allocs/op counts calls of malloc and its kin on the measuring thread. Only ratios within one run count.

#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "buffer/buffer.h"
#include "buffer/copied.h"
#include "buffer/cursor.h"

namespace {
constinit thread_local uint64_t allocation_count = 0;
}  // namespace

// glibc's allocator under its other names, counted. That costs the benches of malloc a fraction of a nanosecond.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t number, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

void* malloc(size_t bytes) noexcept {
  ++allocation_count;
  return __libc_malloc(bytes);
}
void* calloc(size_t number, size_t bytes) noexcept {
  ++allocation_count;
  return __libc_calloc(number, bytes);
}
void* realloc(void* memory, size_t bytes) noexcept {
  ++allocation_count;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  ++allocation_count;
  return __libc_memalign(alignment, bytes);
}
}

namespace sluice {
namespace {

constexpr size_t kChunkBytes = 4096;

// A pool that is current during a bench, and what is counted beside the time.
class Bench {
 public:
  explicit Bench(benchmark::State& state) : state_(state), use_(&pool_) {}
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// Repeats `round`. The first ones, in which pages are touched and lists grow, do not count.
  template <typename Round>
  void run(Round round) {
    for (int i = 0; i < 4; ++i) round();
    const uint64_t allocations = allocation_count, copied = copied_bytes;
    for (auto _ : state_) round();
    count("allocs/op", allocation_count - allocations);
    count("copied/op", copied_bytes - copied);
  }
  ChunkPool& pool() { return pool_; }
  Lease lease(size_t bytes = kChunkBytes) {
    Lease lease = Lease::allocate(pool_, bytes);
    lease.grow_back(bytes);
    return lease;
  }
  Buffer buffer(size_t windows) {
    Buffer buffer;
    for (size_t i = 0; i < windows; ++i) buffer.append(lease());
    return buffer;
  }

 private:
  void count(const char* name, uint64_t number) {
    state_.counters[name] = benchmark::Counter(static_cast<double>(number), benchmark::Counter::kAvgIterations);
  }

  benchmark::State& state_;
  ChunkPool pool_{{.budget_bytes = 256 << 20}};
  ChunkPool::Use use_;
};

void each_tier(benchmark::internal::Benchmark* bench) {
  bench->ArgName("bytes");
  for (int tier = 0; tier < kTierCount; ++tier) bench->Arg(static_cast<int64_t>(tier_bytes(tier)));
}

void window_counts(benchmark::internal::Benchmark* bench) { bench->ArgName("windows")->Arg(1)->Arg(3)->Arg(16); }

// Chunks.

void BM_ChunkGetPut(benchmark::State& state) {
  Bench bench(state);
  const size_t bytes = static_cast<size_t>(state.range(0));
  bench.run([&] {
    Chunk* chunk = bench.pool().get(bytes);
    benchmark::DoNotOptimize(chunk);
    chunk_unref(chunk);
  });
}
BENCHMARK(BM_ChunkGetPut)->Apply(each_tier);

void BM_MallocFree(benchmark::State& state) {
  Bench bench(state);
  const size_t bytes = static_cast<size_t>(state.range(0));
  bench.run([&] {
    void* memory = std::malloc(bytes);
    benchmark::DoNotOptimize(memory);
    std::free(memory);
  });
}
BENCHMARK(BM_MallocFree)->Apply(each_tier);

// Many are out at once, and go home in another order than they came.
constexpr size_t kBurst = 64;

void BM_ChunkBurst(benchmark::State& state) {
  Bench bench(state);
  const size_t bytes = static_cast<size_t>(state.range(0));
  std::array<Chunk*, kBurst> chunks{};
  const auto round = [&] {
    for (Chunk*& chunk : chunks) chunk = bench.pool().get(bytes);
    for (size_t i = 0; i < kBurst; ++i) chunk_unref(chunks[i * 7 % kBurst]);
  };
  bench.run(round);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kBurst));
}
BENCHMARK(BM_ChunkBurst)->ArgName("bytes")->Arg(64)->Arg(4096)->Arg(65536);

void BM_MallocBurst(benchmark::State& state) {
  Bench bench(state);
  const size_t bytes = static_cast<size_t>(state.range(0));
  std::array<void*, kBurst> blocks{};
  bench.run([&] {
    for (void*& block : blocks) benchmark::DoNotOptimize(block = std::malloc(bytes));
    for (size_t i = 0; i < kBurst; ++i) std::free(blocks[i * 7 % kBurst]);
  });
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kBurst));
}
BENCHMARK(BM_MallocBurst)->ArgName("bytes")->Arg(64)->Arg(4096)->Arg(65536);

// Released where the pool is not current: one compare-and-swap, and the home's part of the work.
void BM_ChunkGetPutThroughInbox(benchmark::State& state) {
  Bench bench(state);
  ChunkPool::Use elsewhere(nullptr);
  bench.run([&] {
    Chunk* chunk = bench.pool().get(kChunkBytes);
    benchmark::DoNotOptimize(chunk);
    chunk_unref(chunk);
    bench.pool().take_inbox();
  });
}
BENCHMARK(BM_ChunkGetPutThroughInbox);

// A second thread releases all that the home takes. Handed over in batches, so that the hand-over itself costs little;
// the time is the home's for one chunk.
void BM_ReturnFromAnotherThread(benchmark::State& state) {
  constexpr size_t kBatch = 1024;
  Bench bench(state);
  std::vector<Chunk*> batch(kBatch);
  std::atomic<int> turn = 0;  // 0: the home fills the batch; 1: the other releases it; 2: the other ends.
  std::thread other([&] {
    for (;;) {
      turn.wait(0, std::memory_order_acquire);
      if (turn.load(std::memory_order_acquire) == 2) return;
      for (Chunk* chunk : batch) chunk_unref(chunk);
      turn.store(0, std::memory_order_release);
      turn.notify_one();
    }
  });
  const auto round = [&] {
    for (Chunk*& chunk : batch) chunk = bench.pool().get(kChunkBytes);
    turn.store(1, std::memory_order_release);
    turn.notify_one();
    turn.wait(1, std::memory_order_acquire);
    bench.pool().take_inbox();
  };
  bench.run(round);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kBatch));
  turn.store(2, std::memory_order_release);
  turn.notify_one();
  other.join();
}
BENCHMARK(BM_ReturnFromAnotherThread)->UseRealTime();

// Sharing. A clone lives until its release, so the first bench has both, and the second only the clones of 256 chunks.

void BM_ViewClone(benchmark::State& state) {
  Bench bench(state);
  const View view = bench.lease().freeze();
  bench.run([&] {
    View clone = view.clone();
    benchmark::DoNotOptimize(clone);
  });
}
BENCHMARK(BM_ViewClone);

void BM_ViewCloneAlone(benchmark::State& state) {
  Bench bench(state);
  std::array<View, 256> views, clones;
  for (View& view : views) view = bench.lease().freeze();
  bench.run([&] {
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < views.size(); ++i) clones[i] = views[i].clone();
    benchmark::ClobberMemory();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(passed.count());
    for (View& clone : clones) clone = View();
  });
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(views.size()));
}
BENCHMARK(BM_ViewCloneAlone)->UseManualTime();

void BM_BufferClone(benchmark::State& state) {
  Bench bench(state);
  Buffer buffer = bench.buffer(static_cast<size_t>(state.range(0)));
  bench.run([&] {
    Buffer clone = buffer.clone();
    benchmark::DoNotOptimize(clone);
  });
}
BENCHMARK(BM_BufferClone)->Apply(window_counts);

// Moving windows.

void BM_AppendTrim(benchmark::State& state) {
  Bench bench(state);
  Buffer buffer = bench.buffer(static_cast<size_t>(state.range(0)) - 1);
  const size_t rest = buffer.size();
  bench.run([&] {
    buffer.append(bench.lease());
    benchmark::DoNotOptimize(buffer);
    buffer.truncate(rest);
  });
}
BENCHMARK(BM_AppendTrim)->Apply(window_counts);

void BM_PrependTrim(benchmark::State& state) {
  Bench bench(state);
  Buffer buffer = bench.buffer(static_cast<size_t>(state.range(0)) - 1);
  bench.run([&] {
    buffer.prepend(bench.lease());
    benchmark::DoNotOptimize(buffer);
    buffer.trim_front(kChunkBytes);
  });
}
BENCHMARK(BM_PrependTrim)->Apply(window_counts);

// A queue that moves on: in at the back, out at the front.
void BM_QueueThrough(benchmark::State& state) {
  Bench bench(state);
  Buffer buffer = bench.buffer(static_cast<size_t>(state.range(0)) - 1);
  bench.run([&] {
    buffer.append(bench.lease());
    buffer.trim_front(kChunkBytes);
    benchmark::DoNotOptimize(buffer);
  });
}
BENCHMARK(BM_QueueThrough)->Apply(window_counts);

void BM_TrimFrontWithinAWindow(benchmark::State& state) {
  Bench bench(state);
  bench.buffer(2).clear();  // So that both the old and the new buffer have a chunk below.
  Buffer buffer = bench.buffer(1);
  bench.run([&] {
    if (buffer.size() == 1) [[unlikely]]
      buffer = bench.buffer(1);
    buffer.trim_front(1);
    benchmark::DoNotOptimize(buffer);
  });
}
BENCHMARK(BM_TrimFrontWithinAWindow);

// Cuts the last window in two, and joins what was cut.
void BM_SplitAppend(benchmark::State& state) {
  Bench bench(state);
  Buffer buffer = bench.buffer(static_cast<size_t>(state.range(0)));
  const size_t cut = buffer.size() - kChunkBytes / 2;
  bench.run([&] {
    Buffer front = buffer.split_front(cut);
    benchmark::DoNotOptimize(front);
    front.append(std::move(buffer));
    buffer = std::move(front);
  });
}
BENCHMARK(BM_SplitAppend)->Apply(window_counts);

// A whole buffer to an empty one, and back.
void BM_MoveBuffer(benchmark::State& state) {
  Bench bench(state);
  Buffer buffer = bench.buffer(static_cast<size_t>(state.range(0)));
  bench.run([&] {
    Buffer other;
    other.append(std::move(buffer));
    benchmark::DoNotOptimize(other);
    buffer = std::move(other);
  });
}
BENCHMARK(BM_MoveBuffer)->Apply(window_counts);

void BM_AppendCopy(benchmark::State& state) {
  Bench bench(state);
  const std::vector<std::byte> bytes(static_cast<size_t>(state.range(0)));
  bench.run([&] {
    Buffer buffer;
    benchmark::DoNotOptimize(buffer.append_copy(bench.pool(), bytes));
  });
}
BENCHMARK(BM_AppendCopy)->ArgName("bytes")->Arg(64)->Arg(4096);

void BM_Settle(benchmark::State& state) {
  Bench bench(state);
  bench.run([&] {
    Buffer buffer = bench.buffer(1);
    buffer.truncate(100);
    benchmark::DoNotOptimize(buffer.settle(bench.pool()));
  });
}
BENCHMARK(BM_Settle);

// A frame header that lies across two windows.
void BM_CursorAcrossABorder(benchmark::State& state) {
  Bench bench(state);
  Buffer buffer;
  buffer.append(bench.lease(5));
  buffer.append(bench.lease());
  bench.run([&] {
    Cursor cursor(buffer);
    benchmark::DoNotOptimize(cursor.u24be());
    benchmark::DoNotOptimize(cursor.u16be());
    benchmark::DoNotOptimize(cursor.u32be());
    benchmark::DoNotOptimize(cursor.ok());
  });
}
BENCHMARK(BM_CursorAcrossABorder);

// Many buffers.

void BM_Create1024Buffers(benchmark::State& state) {
  Bench bench(state);
  std::vector<Buffer> buffers(1024);
  const auto round = [&] {
    for (Buffer& buffer : buffers) buffer.append(bench.lease(static_cast<size_t>(state.range(0))));
    for (Buffer& buffer : buffers) buffer.clear();
  };
  bench.run(round);
  state.SetItemsProcessed(state.iterations() * 1024);
}
BENCHMARK(BM_Create1024Buffers)->ArgName("bytes")->Arg(64)->Arg(4096)->Arg(65536);

}  // namespace
}  // namespace sluice
