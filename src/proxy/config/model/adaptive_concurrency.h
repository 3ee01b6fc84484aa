#pragma once

#include <chrono>
#include <cstdint>

#include "proxy/config/model/units.h"

namespace sluice::config {

/// A limit of the requests in flight to an upstream that follows its latency: see ConcurrencyControl. All numbers are
/// for one worker, as those of Pool.
struct AdaptiveConcurrency {
  static constexpr uint32_t kMost = 10'000;  ///< Of any limit.

  /// The limit never falls below it. 3: as Envoy's min_concurrency; enough to measure with.
  uint32_t min = 3;
  /// The limit never grows beyond it. 1000: as Envoy's max_concurrency_limit.
  uint32_t max = 1000;
  /// The limit at first. 20: as Netflix's concurrency-limits.
  uint32_t initial = 20;
  /// How long a request may wait for its place. As many wait as are in flight at most, so requests that wait get a
  /// place after about the time of one response, unless more important ones keep taking it.
  Duration max_wait = std::chrono::seconds(1);

  bool operator==(const AdaptiveConcurrency&) const = default;
};

}  // namespace sluice::config
