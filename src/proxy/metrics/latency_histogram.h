#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/common/counter.h"

namespace sluice {

/// How often something took how long, with one writer (its worker) and any number of readers. The buckets are fixed, so
/// that histograms of workers and of processes add up. Times are in milliseconds, the resolution of a worker's clock.
class LatencyHistogram {
 public:
  /// A bucket has the times up to and including its bound that no earlier bucket has.
  struct Bound {
    uint32_t ms;            ///< The bound in whole milliseconds.
    double seconds;         ///< The bound itself.
    std::string_view text;  ///< The same, as OpenMetrics writes it.
  };
  static constexpr std::array<Bound, 15> kBounds = {{{1, 0.001, "0.001"},
                                                     {2, 0.0025, "0.0025"},
                                                     {5, 0.005, "0.005"},
                                                     {10, 0.01, "0.01"},
                                                     {25, 0.025, "0.025"},
                                                     {50, 0.05, "0.05"},
                                                     {100, 0.1, "0.1"},
                                                     {250, 0.25, "0.25"},
                                                     {500, 0.5, "0.5"},
                                                     {1000, 1, "1.0"},
                                                     {2500, 2.5, "2.5"},
                                                     {5000, 5, "5.0"},
                                                     {10'000, 10, "10.0"},
                                                     {30'000, 30, "30.0"},
                                                     {60'000, 60, "60.0"}}};
  /// The last one has the times beyond all bounds.
  static constexpr size_t kBuckets = kBounds.size() + 1;

  void add(uint64_t ms) {
    sum_ms_.add(ms);
    if (ms <= kBounds[0].ms) return buckets_[0].add();
    buckets_[bucket_of(ms)].add();
  }

  uint64_t bucket(size_t index) const { return buckets_[index].value(); }
  uint64_t sum_ms() const { return sum_ms_.value(); }

 private:
  static size_t bucket_of(uint64_t ms);

  std::array<Counter, kBuckets> buckets_;
  Counter sum_ms_;
};

/// The sum of histograms at one moment.
struct LatencySum {
  std::array<uint64_t, LatencyHistogram::kBuckets> buckets{};
  uint64_t sum_ms = 0;

  void add(const LatencyHistogram& histogram);
  void add(const LatencySum& other);
  uint64_t count() const;
  /// The time in seconds that this part (0 to 1) of the times do not exceed, on the assumption that the times of a
  /// bucket are spread evenly in it, as histogram_quantile of Prometheus has it: for times beyond all bounds, the last
  /// bound. Not set if there are none.
  std::optional<double> quantile(double part) const;
};

}  // namespace sluice
