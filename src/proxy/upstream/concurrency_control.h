#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

/// What has been learned about an upstream, for the next configuration that has it. 0: nothing.
struct LearnedConcurrency {
  double limit = 0;
  double base_ms = 0;
};

/// How many requests may be in flight to an upstream: a gradient controller, as Envoy's, with another measurement of
/// the latency without load. Its user tells it about each request; it reads no clock.
///
/// A round is the time in which as many requests begin and end as the limit allows at once. After each, the limit is
/// multiplied with the gradient: the latency without load, with a tolerance, over the mean latency of the round, from
/// 1/2 to 1. The square root of the limit is added, if the limit was reached. So it grows as long as more requests in
/// flight take no longer, and stops where they only wait for each other in the endpoints.
///
/// The latency without load is measured in a probe: for a moment the limit is half of what it was, and half of that
/// again, as long as the latency falls with it. Probes begin at multiples of a time, so that all workers, and all
/// proxies whose clocks agree, probe together: one alone would measure what the others cause.
class ConcurrencyControl {
 public:
  struct Options {
    uint32_t min = 3;
    uint32_t max = 1000;
    uint32_t initial = 20;
  };
  /// `wish`: when the next probe is needed at the latest, for all that measure the same upstream; may be null.
  explicit ConcurrencyControl(const Options& options, const LearnedConcurrency& learned = {},
                              std::atomic<uint64_t>* wish = nullptr);

  /// How many requests may be in flight now.
  uint32_t limit() const { return allowed_; }
  LearnedConcurrency learned() const { return {limit_, base_ms_}; }
  /// The latency without load in milliseconds; 0: not known.
  double base_ms() const { return base_ms_; }
  bool probing() const { return step_ > 0; }

  /// A request begins. note_response() or note_end() must follow.
  void note_begin(uint64_t now_ms);
  uint32_t in_flight() const { return in_flight_; }
  /// The limit was reached: a request could not begin.
  void note_full() { full_ = true; }
  /// The endpoint has begun to respond to a request.
  void note_response(uint64_t latency_ms, uint64_t now_ms);
  /// A request is not in flight any more, without a latency that counts.
  void note_end();
  /// A request has failed as those of an endpoint with too many requests do.
  void note_failure(uint64_t now_ms);
  /// Call it now and then while there are requests, with a clock that other proxies share.
  void note_time(uint64_t now_ms) {
    if (now_ms >= due_ms_ || is_wished(now_ms)) [[unlikely]]
      follow(now_ms);
  }

 private:
  bool is_wished(uint64_t now_ms) const {
    return wish_ && !probing() && wish_->load(std::memory_order_relaxed) > probed_ms_ &&
           now_ms >= wish_->load(std::memory_order_relaxed);
  }
  void follow(uint64_t now_ms);
  void begin_round(uint64_t now_ms);
  void end_round(uint64_t now_ms);
  void adapt(double mean_ms);
  void request_probe(uint64_t now_ms);
  void schedule_probe(uint64_t now_ms);
  void begin_step(uint64_t now_ms);
  void end_step(uint64_t now_ms);
  void end_probe(uint64_t now_ms, double base_ms);
  void allow();
  double mean_ms() const { return sum_ms_ / responses_; }

  const Options options_;
  std::atomic<uint64_t>* const wish_;
  double limit_;
  double base_ms_;
  uint32_t allowed_ = 0;
  // The round.
  uint32_t in_flight_ = 0;
  bool starting_ = true;    // The latency has never shown that the limit is too high.
  bool full_ = false;       // The limit was reached.
  uint32_t most_ = 0;       // Requests in flight at a time.
  uint32_t settling_ = 0;   // Responses that show the limit of before.
  uint32_t responses_ = 0;  // Those behind them.
  uint32_t failures_ = 0;
  double sum_ms_ = 0;
  uint64_t began_ms_ = 0;
  // The probe.
  uint32_t step_ = 0;  // 0: there is none now.
  double probe_limit_ = 0;
  double loaded_ms_ = 0;   // The mean latency before it.
  bool measured_ = false;  // There was one, or what it measures was known.
  uint64_t step_ms_ = 0;
  uint32_t extensions_ = 0;   // Of the step.
  double before_ms_ = 0;      // The mean latency before the step; 0: not known.
  uint64_t due_ms_ = 0;       // When the next one begins, or its step ends.
  uint64_t probed_ms_ = 0;    // When the last one was due.
  double probed_limit_ = 0;   // The limit at the last one.
  double last_mean_ms_ = 0;   // Of the last round.
  uint32_t slow_rounds_ = 0;  // In a row.
  bool fast_ = false;         // The latency is below that without load.
  bool slow_ = false;         // The latency does not follow the limit.
};

}  // namespace sluice
