// The cost of a check of a rate limit: the key of a request, the time, and the table, which 1,000,000 sources share.

#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "net/worker.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/fields.h"
#include "proxy/rate_limit/rate_limiter.h"

namespace sluice {
namespace {

constexpr uint32_t kSources = 1'000'000;
/// Requests whose sources are drawn before.
constexpr size_t kOrder = size_t{1} << 20;
/// Requests in a turn of the loop, which reads the clock once.
constexpr uint32_t kTurn = 16;

config::RateLimit limit_of(uint32_t entries) {
  return {.name = "bench", .rate = config::Rate::parse("10/m").value(), .burst = 100, .entries = entries};
}

/// The source of a request, by number. A number that nobody has used before is a stranger.
ClientIp source_of(uint32_t number) {
  const std::array<uint8_t, 4> bytes = {static_cast<uint8_t>(number >> 24), static_cast<uint8_t>(number >> 16),
                                        static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)};
  return ClientIp(std::span<const uint8_t>(bytes));
}

/// Requests of `kSources` sources in random order, with a table of `entries`. Of 1,000 requests `others` come from
/// sources that are not among the first `active` ones: if all are active, from new ones.
void check(benchmark::State& state, uint32_t entries, uint32_t active, uint32_t others) {
  static std::shared_ptr<RateLimiter> limiter;
  if (state.thread_index() == 0) {
    limiter = std::make_shared<RateLimiter>(limit_of(entries), nullptr);
    const WorkerRateLimit all{limiter, std::make_shared<RateLimitCounters>()};
    const Fields fields;
    for (uint32_t i = kSources; i-- > 0;) {
      const ClientIp client = source_of(i);
      const RequestAttributes facts{.fields = &fields, .client = &client};
      all.check(rate_key_of_request(RateSecret::of_process(), limiter->key(), {}, facts), monotonic_us());
    }
  }
  // Random numbers cost as much as a check, so they are made before.
  std::mt19937 random(static_cast<unsigned>(state.thread_index() + 1));
  std::vector<uint32_t> order(kOrder);
  uint32_t stranger = kSources + static_cast<uint32_t>(state.thread_index()) * (uint32_t{1} << 30);
  for (uint32_t& number : order) {
    const bool other = random() % 1000 < others;
    const auto drawn = static_cast<uint32_t>(random());
    number = !other ? drawn % active : active == kSources ? ++stranger : active + drawn % (kSources - active);
  }
  const Fields fields;
  const RateKeyPlace place;
  std::shared_ptr<RateLimitCounters> counters = std::make_shared<RateLimitCounters>();
  WorkerRateLimit limit;
  size_t at = 0;
  uint64_t now_us = 0;
  for (auto _ : state) {
    if (at % kTurn == 0) now_us = monotonic_us();
    if (!limit.limiter) limit = {limiter, counters};  // Behind the barrier at which thread 0 has made it.
    const ClientIp client = source_of(order[at++ % kOrder]);
    const RequestAttributes facts{.fields = &fields, .client = &client};
    benchmark::DoNotOptimize(
        limit.check(rate_key_of_request(RateSecret::of_process(), limit.limiter->key(), place, facts), now_us));
  }
  state.counters["table_bytes"] =
      benchmark::Counter(static_cast<double>(limiter->table().bytes()), benchmark::Counter::kAvgThreads);
  state.counters["evicted"] =
      benchmark::Counter(static_cast<double>(counters->evictions.value()) / static_cast<double>(state.iterations()),
                         benchmark::Counter::kAvgThreads);
}

/// One source that is over its limit: its checks write nothing.
void refused(benchmark::State& state) {
  static std::shared_ptr<RateLimiter> limiter;
  if (state.thread_index() == 0) limiter = std::make_shared<RateLimiter>(limit_of(65536), nullptr);
  const Fields fields;
  const RateKeyPlace place;
  const ClientIp client = source_of(1);
  const RequestAttributes facts{.fields = &fields, .client = &client};
  for (auto _ : state) {
    const WorkerRateLimit limit{limiter, std::make_shared<RateLimitCounters>()};
    uint64_t now_us = 0;
    for (uint32_t i = 0; i < 1000; ++i) {
      if (i % kTurn == 0) now_us = monotonic_us();
      benchmark::DoNotOptimize(
          limit.check(rate_key_of_request(RateSecret::of_process(), limiter->key(), place, facts), now_us));
    }
  }
  state.SetItemsProcessed(state.iterations() * 1000);
}

// All are as active as each other, and 1 % of the requests are from new ones.
BENCHMARK_CAPTURE(check, million_sources_fit, 1 << 21, kSources, 10)->ThreadRange(1, 2)->UseRealTime();
// 99 % of the requests are from 30,000 of them, which fit in the default entries.
BENCHMARK_CAPTURE(check, active_sources_fit, 65536, 30'000, 10)->ThreadRange(1, 2)->UseRealTime();
// No room for a tenth of them: a flood.
BENCHMARK_CAPTURE(check, million_sources_in_default_entries, 65536, kSources, 10)->ThreadRange(1, 2)->UseRealTime();
BENCHMARK(refused)->ThreadRange(1, 2)->UseRealTime();

}  // namespace
}  // namespace sluice
