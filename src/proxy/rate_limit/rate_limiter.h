#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/common/counter.h"
#include "proxy/config/model/rate_limit.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/rate_limit/rate_key.h"
#include "proxy/rate_limit/rate_table.h"

namespace sluice {

/// The counters of one worker for one rate limit.
struct RateLimitCounters {
  Counter limited;                ///< Requests and connections that were refused.
  Counter dry_run;                ///< Those that would have been, but for `dry_run`.
  Counter delayed;                ///< Requests that had to wait.
  Counter dry_run_delayed;        ///< Those that would have had to, but for `dry_run`.
  Counter bytes;                  ///< Bytes of bodies that were counted.
  Counter delayed_bytes;          ///< Those that had to wait for their turn.
  Counter pauses;                 ///< How often bodies had to wait.
  Counter dry_run_delayed_bytes;  ///< Bytes that would have had to, but for `dry_run`.
  Counter evictions;              ///< Keys forgotten before they had recovered, for lack of room.
};

/// A rate limit of a configuration, with what it counts, which all workers share.
class RateLimiter {
 public:
  /// `before`: the limit of this name that it replaces. They share what they count if it is the same.
  RateLimiter(config::Snapshot<config::RateLimit> limit, const RateLimiter* before)
      : config_(std::move(limit)),
        key_(config_->effective_key()),
        table_(before && before->config_->counts_as(*config_) ? before->table_ : table_of(*config_)) {}

  const config::RateLimit& config() const { return *config_; }
  const config::RateKey& key() const { return key_; }
  RateTable& table() const { return *table_; }

 private:
  static std::shared_ptr<RateTable> table_of(const config::RateLimit& limit);

  const config::Snapshot<config::RateLimit> config_;
  const config::RateKey key_;
  const std::shared_ptr<RateTable> table_;
};

/// What a rate limit decides about an event.
struct RateDecision {
  bool refused = false;
  /// Until when it has to wait. If it is refused: when the next one may come. In nanoseconds, from now on.
  uint64_t wait_ns = 0;
};

/// A rate limit as one worker uses it.
struct WorkerRateLimit {
  std::shared_ptr<const RateLimiter> limiter;
  std::shared_ptr<RateLimitCounters> counters;

  /// Counts an event of this key. `now_us`: Worker::now_us(), here and below.
  RateDecision check(uint64_t key_hash, uint64_t now_us) const;
  /// For a limit of bytes: counts the next bytes of a body. Returns in how many nanoseconds their turn comes.
  uint64_t reserve(uint64_t key_hash, size_t bytes, uint64_t now_us) const;
  /// Gives back bytes that will not pass, as their body has ended.
  void give_back(uint64_t key_hash, size_t bytes, uint64_t now_us) const;
};

/// All rate limits of a configuration, on one worker.
using WorkerRateLimits = std::vector<WorkerRateLimit>;

/// Those with these names, in the order of the names. Precondition: they exist.
WorkerRateLimits rate_limits_named(const WorkerRateLimits& all, const std::vector<std::string>& names);

/// When a wait of a limit that begins now is over, for TimerWheel::arm: never early.
constexpr uint64_t rate_turn_ms(uint64_t now_us, uint64_t wait_ns) {
  return (now_us * 1000 + wait_ns + 999'999) / 1'000'000;
}

/// How long until then in whole seconds, rounded up.
constexpr uint64_t whole_seconds(uint64_t nanoseconds) { return (nanoseconds + 999'999'999) / 1'000'000'000; }

}  // namespace sluice
