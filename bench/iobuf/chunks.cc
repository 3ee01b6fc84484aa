// Memory: allocated and released on its home thread.

#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "bench/iobuf/memory.h"

namespace sluice::bench {
namespace {

void each_tier(benchmark::internal::Benchmark* bench) {
  for (int tier = 0; tier < kTierCount; ++tier) bench->Arg(static_cast<int64_t>(tier_bytes(tier)));
}
void three_sizes(benchmark::internal::Benchmark* bench) { bench->Arg(64)->Arg(4096)->Arg(65536); }

template <typename Memory>
void get_put(benchmark::State& state) {
  Memory memory;
  const size_t bytes = argument(state);
  run(state, [&] {
    typename Memory::Held held = memory.get(bytes);
    benchmark::DoNotOptimize(held);
    Memory::put(held);
  });
}
BENCHMARK(get_put<PoolMemory>)->Name("get_put/sluice")->Apply(each_tier);
BENCHMARK(get_put<HeapMemory>)->Name("get_put/malloc")->Apply(each_tier);
BENCHMARK(get_put<CordMemory>)->Name("get_put/cord")->Apply(each_tier);

// Many are allocated at once, and released in another order.
template <typename Memory>
void burst(benchmark::State& state) {
  constexpr size_t kCount = 64;
  Memory memory;
  const size_t bytes = argument(state);
  std::array<typename Memory::Held, kCount> held{};
  run(state, kCount, [&] {
    for (typename Memory::Held& each : held) benchmark::DoNotOptimize(each = memory.get(bytes));
    for (size_t i = 0; i < kCount; ++i) Memory::put(held[i * 7 % kCount]);
  });
}
BENCHMARK(burst<PoolMemory>)->Name("burst/sluice")->Apply(three_sizes);
BENCHMARK(burst<HeapMemory>)->Name("burst/malloc")->Apply(three_sizes);
BENCHMARK(burst<CordMemory>)->Name("burst/cord")->Apply(three_sizes);

// 1,024 buffers of one window each are made, then dropped in the same order.

constexpr size_t kBuffers = 1024;

void create_sluice(benchmark::State& state) {
  Home home;
  const size_t bytes = argument(state);
  std::vector<Buffer> buffers(kBuffers);
  run(state, kBuffers, [&] {
    for (Buffer& buffer : buffers) buffer.append(home.lease(bytes));
    for (Buffer& buffer : buffers) buffer.clear();
  });
}
BENCHMARK(create_sluice)->Name("create_1024/sluice")->Apply(three_sizes);

void create_malloc(benchmark::State& state) {
  const size_t bytes = argument(state);
  std::vector<void*> buffers(kBuffers);
  run(state, kBuffers, [&] {
    for (void*& buffer : buffers) benchmark::DoNotOptimize(buffer = std::malloc(bytes));
    for (void*& buffer : buffers) std::free(buffer);
  });
}
BENCHMARK(create_malloc)->Name("create_1024/malloc")->Apply(three_sizes);

void create_cord(benchmark::State& state) {
  const size_t bytes = argument(state);
  std::vector<absl::Cord> buffers(kBuffers);
  run(state, kBuffers, [&] {
    for (absl::Cord& buffer : buffers) {
      absl::CordBuffer memory = cord_memory(bytes);
      memory.SetLength(memory.capacity());
      buffer.Append(std::move(memory));
    }
    for (absl::Cord& buffer : buffers) buffer.Clear();
  });
}
BENCHMARK(create_cord)->Name("create_1024/cord")->Apply(three_sizes);

}  // namespace
}  // namespace sluice::bench
