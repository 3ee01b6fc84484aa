// The costs of forwarding besides time: heap allocations and copied bytes per 1,000 requests, in the steady state. Both
// are 0.

#include <benchmark/benchmark.h>

#include "test/support/allocations.h"
#include "test/support/forwarding.h"

namespace {

void BM_ForwardRequests(benchmark::State& state, sluice::RingsMode rings, sluice::ChunkPool::Source source) {
  sluice::test::Forwarding forwarding(rings, source);
  const auto bytes = static_cast<size_t>(state.range(0));
  for (int i = 0; i < 2000; ++i) forwarding.round_trip(bytes);
  const uint64_t copied = forwarding.proxy().gauges().copied_bytes.value();
  const uint64_t allocated = sluice::test::allocations.load();
  for (auto _ : state) forwarding.round_trip(bytes);
  const double thousands = static_cast<double>(state.iterations()) / 1000;
  state.counters["mallocs/1000"] = static_cast<double>(sluice::test::allocations.load() - allocated) / thousands;
  state.counters["copied_bytes/1000"] =
      static_cast<double>(forwarding.proxy().gauges().copied_bytes.value() - copied) / thousands;
}
constexpr auto kArena = sluice::ChunkPool::Source::kArena, kMalloc = sluice::ChunkPool::Source::kHeap;
BENCHMARK_CAPTURE(BM_ForwardRequests, auto, sluice::RingsMode::kAuto, kArena) -> Arg(120) -> Arg(16384) -> Arg(262144)
    -> UseRealTime();
BENCHMARK_CAPTURE(BM_ForwardRequests, plain, sluice::RingsMode::kPlain, kArena)->Arg(120)->UseRealTime();
// The same without pools, to show their benefit.
BENCHMARK_CAPTURE(BM_ForwardRequests, malloc, sluice::RingsMode::kAuto, kMalloc)
    ->Arg(120)
    ->Arg(16384)
    ->Arg(262144)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_ForwardRequests, malloc_plain, sluice::RingsMode::kPlain, kMalloc)->Arg(120)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
