// The cost of choosing an endpoint, the shares of endpoints, the keys that move when one leaves, and the effect of a
// slow endpoint on the latency of all requests. bench/balancing runs it, and makes tables and a plot of it.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/scalar.h"
#include "proxy/upstream/balancer.h"
#include "proxy/upstream/stable_hash.h"

namespace sluice {
namespace {

using config::Balance;

config::Upstream upstream_of(Balance balance, size_t endpoints) {
  config::Upstream upstream;
  upstream.balance = balance;
  for (size_t i = 0; i < endpoints; ++i) {
    const std::string address = absl::StrCat("10.", i >> 16, ".", i >> 8 & 255, ".", i & 255, ":8080");
    upstream.endpoints.push_back({.address = config::Address::parse(address).value()});
  }
  return upstream;
}

/// An upstream with one worker's balancer.
struct Subject {
  Subject(Balance balance, size_t endpoints) : config(upstream_of(balance, endpoints)) {}

  uint32_t pick(uint64_t key) { return balancer.pick({.now_ms = 1, .hash = mixed(key)}).value(); }

  config::Upstream config;
  UpstreamState state{config};
  Balancer balancer{state, 1};
};

// ---- Cost ----

/// With different numbers of open requests, as they would be where loads are compared.
void pick_cost(benchmark::State& state, Balance balance) {
  Subject subject(balance, static_cast<size_t>(state.range(0)));
  for (size_t i = 0; i < subject.state.size(); ++i) {
    subject.state.endpoint(i).active.store(static_cast<uint32_t>(mixed(i) % 16));
  }
  uint64_t key = 0;
  for (auto _ : state) benchmark::DoNotOptimize(subject.pick(++key));
}

/// The same while half of the endpoints are down.
void pick_cost_half_down(benchmark::State& state, Balance balance) {
  Subject subject(balance, static_cast<size_t>(state.range(0)));
  for (size_t i = 0; i < subject.state.size(); i += 2) subject.state.endpoint(i).down_until_ms.store(UINT64_MAX);
  uint64_t key = 0;
  for (auto _ : state) benchmark::DoNotOptimize(subject.pick(++key));
}

/// The cost for the thread that changes the set of endpoints.
void renew_cost(benchmark::State& state, Balance balance) {
  Subject subject(balance, static_cast<size_t>(state.range(0)));
  for (auto _ : state) subject.state.slots().renew_set();
}

// ---- Shares and keys that move ----

constexpr uint64_t kKeys = 1'000'000;

std::vector<uint32_t> owners(Subject& subject) {
  std::vector<uint32_t> all(kKeys);
  for (uint64_t key = 0; key < kKeys; ++key) all[key] = subject.pick(key);
  return all;
}

double moved_percent(const std::vector<uint32_t>& before, const std::vector<uint32_t>& after) {
  uint64_t moved = 0;
  for (size_t i = 0; i < before.size(); ++i) moved += before[i] != after[i];
  return 100.0 * static_cast<double>(moved) / static_cast<double>(before.size());
}

/// The least and the most loaded endpoint, in percent of an even share; and how many of the keys move when one leaves:
/// while it is down (passed over), and when it is no longer in the set (the table is another).
void keys(benchmark::State& state, Balance balance) {
  const auto count = static_cast<size_t>(state.range(0));
  Subject subject(balance, count);
  const std::vector<uint32_t> before = owners(subject);
  std::vector<double> shares(count);
  for (const uint32_t owner : before) shares[owner] += 100.0 * static_cast<double>(count) / kKeys;
  const size_t leaves = count / 2;
  EndpointState& leaving = subject.state.endpoint(leaves);
  leaving.down_until_ms.store(UINT64_MAX);
  const double down = moved_percent(before, owners(subject));
  leaving.present.store(false);
  subject.state.slots().renew_set();
  const double gone = moved_percent(before, owners(subject));
  for (auto _ : state) benchmark::DoNotOptimize(subject.pick(1));
  state.counters["share_min"] = *std::min_element(shares.begin(), shares.end());
  state.counters["share_max"] = *std::max_element(shares.begin(), shares.end());
  state.counters["its_own"] = shares[leaves] / static_cast<double>(count);
  state.counters["moved_down"] = down;
  state.counters["moved_gone"] = gone;
}

// ---- A slow endpoint ----

constexpr size_t kEndpoints = 10;
constexpr double kSlowdown = 3;  // Of endpoint 0.
constexpr double kLoad = 0.3;    // Of a fast one, if all get the same; the slow one would be busy for 90 % of the time.

/// Requests arrive at random, each endpoint serves one after the other, and each takes an exponentially distributed
/// time: 1 on average, or kSlowdown. Returns the times from arrival to completion in that unit.
std::vector<double> latencies(Balance balance, uint64_t requests) {
  Subject subject(balance, kEndpoints);
  std::mt19937_64 random(42);
  std::exponential_distribution<double> time;
  struct Done {
    double at;
    uint32_t endpoint;
    bool operator<(const Done& other) const { return at > other.at; }
  };
  std::priority_queue<Done> under_way;
  std::vector<double> free_at(kEndpoints), result;
  double now = 0;
  for (uint64_t i = 0; i < requests; ++i) {
    now += time(random) / (kLoad * kEndpoints);
    for (; !under_way.empty() && under_way.top().at <= now; under_way.pop()) {
      subject.state.endpoint(under_way.top().endpoint).active.fetch_sub(1, std::memory_order_relaxed);
    }
    const uint32_t picked = subject.pick(i);
    subject.state.endpoint(picked).active.fetch_add(1, std::memory_order_relaxed);
    free_at[picked] = std::max(free_at[picked], now) + time(random) * (picked == 0 ? kSlowdown : 1);
    under_way.push({free_at[picked], picked});
    result.push_back(free_at[picked] - now);
  }
  std::sort(result.begin(), result.end());
  return result;
}

void slow_endpoint(benchmark::State& state, Balance balance) {
  constexpr uint64_t kRequests = 1'000'000;
  std::vector<double> sorted;
  for (auto _ : state) sorted = latencies(balance, kRequests);
  for (const auto& [name, share] : {std::pair("p50", 0.5), std::pair("p90", 0.9), std::pair("p99", 0.99),
                                    std::pair("p999", 0.999), std::pair("p9999", 0.9999)}) {
    state.counters[name] = sorted[static_cast<size_t>(share * kRequests)];
  }
}

void register_all() {
  constexpr Balance kAll[] = {Balance::kRoundRobin, Balance::kLeastConnections, Balance::kLeastRequest,
                              Balance::kRandom,     Balance::kMaglev,           Balance::kRingHash};
  for (const Balance balance : kAll) {
    const std::string name = config::Scalar<Balance>::print(balance);
    const auto sizes = [](benchmark::internal::Benchmark* bench) { bench->Arg(10)->Arg(100)->Arg(1000); };
    sizes(benchmark::RegisterBenchmark("pick/" + name, pick_cost, balance));
    sizes(benchmark::RegisterBenchmark("pick_half_down/" + name, pick_cost_half_down, balance));
    benchmark::RegisterBenchmark("slow/" + name, slow_endpoint, balance)->Iterations(1)->Unit(benchmark::kMillisecond);
    if (balance != Balance::kMaglev && balance != Balance::kRingHash) continue;
    sizes(benchmark::RegisterBenchmark("renew/" + name, renew_cost, balance)->Unit(benchmark::kMicrosecond));
    sizes(benchmark::RegisterBenchmark("keys/" + name, keys, balance)->Iterations(1));
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  sluice::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
