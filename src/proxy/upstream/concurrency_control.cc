#include "proxy/upstream/concurrency_control.h"

#include <algorithm>
#include <cmath>

namespace sluice {

namespace {

// How much longer than without load a response may take, before the limit falls. The constant part is the resolution of
// the clock, and a turn of the loop.
constexpr double kTolerance = 1.3, kToleranceMs = 1;
constexpr double kLeastGradient = 0.5;

// A round has at least so many responses, or as many as the limit, and takes at least so long.
constexpr uint32_t kLeastResponses = 20, kMostResponses = 200;
constexpr uint64_t kLeastRoundMs = 20;
// One slow response must not hide the others: more than that times the latency without load counts as that.
// In a probe, it is more than that times the latency before it.
constexpr double kMostLatency = 8, kMostInProbe = 20;

// From this share of failures on, a round is a bad one, however short its latency is.
constexpr double kBadShare = 0.1;
constexpr uint32_t kBadFailures = 2;

// Probes begin at multiples of the first time, or of a power of two of it, so that they take little of the time. One
// that is needed at once begins at a multiple of the second.
constexpr uint64_t kProbeEveryMs = 10'000, kProbeSoonMs = 1000;
constexpr double kProbeShare = 40;  // At least so many latencies from one to the next.
// A step takes so many latencies, within these bounds.
constexpr double kStepLatencies = 4;
constexpr uint64_t kLeastStepMs = 100, kMostStepMs = 10'000;
constexpr uint32_t kMostSteps = 8;
constexpr double kLeastProbed = 2;  // Requests in flight; with one, small upstreams would nearly stand still.
// Then it takes so long again, while there are fewer responses than that.
constexpr uint32_t kProbeResponses = 30, kMostExtensions = 10;
// With fewer in the end, it was in vain.
constexpr uint32_t kFewResponses = 8;
// The very first probe ends with so many, as everything may be slow meanwhile.
constexpr uint32_t kFirstResponses = 100;
// Latency that falls to this with half of the requests is latency of requests that wait for each other.
constexpr double kFalls = 0.65;
// So near to the latency without load of the last probe, it is the same, unless it has fallen as far as the limit.
constexpr double kSame = 0.75, kFallsAll = 0.55;
// So many rounds in a row in which the limit falls fast call for a probe: perhaps all requests take longer now.
constexpr uint32_t kSlowRounds = 3;
constexpr double kSlowGradient = 0.9;
// So much less latency than without load calls for one, too.
constexpr double kFast = 0.6;

}  // namespace

ConcurrencyControl::ConcurrencyControl(const Options& options, const LearnedConcurrency& learned,
                                       std::atomic<uint64_t>* wish)
    : options_(options),
      wish_(wish),
      limit_(learned.limit > 0 ? learned.limit : options.initial),
      base_ms_(learned.base_ms) {
  limit_ = std::clamp<double>(limit_, options_.min, options_.max);
  probed_limit_ = limit_;
  measured_ = base_ms_ > 0;
  settling_ = options_.initial;  // The first responses are the fastest ones.
  allow();
}

// ---- Requests ----

void ConcurrencyControl::note_begin(uint64_t now_ms) {
  note_time(now_ms);
  most_ = std::max(most_, ++in_flight_);
}

void ConcurrencyControl::note_response(uint64_t latency_ms, uint64_t now_ms) {
  --in_flight_;
  if (settling_ > 0) {
    --settling_;
  } else {
    const double usual_ms = probing() ? kMostInProbe * before_ms_ : kMostLatency * (base_ms_ + kToleranceMs);
    const auto ms = static_cast<double>(latency_ms);
    sum_ms_ += base_ms_ > 0 ? std::min(ms, usual_ms) : ms;
    ++responses_;
  }
  if (probing() && !measured_ && responses_ >= kFirstResponses) return end_step(now_ms);
  end_round(now_ms);
}

void ConcurrencyControl::note_end() {
  --in_flight_;
  if (settling_ > 0) --settling_;
}

void ConcurrencyControl::note_failure(uint64_t now_ms) {
  ++failures_;
  end_round(now_ms);
}

// ---- Rounds ----

void ConcurrencyControl::begin_round(uint64_t now_ms) {
  full_ = false;
  settling_ = most_ = in_flight_;
  responses_ = failures_ = 0;
  sum_ms_ = 0;
  began_ms_ = now_ms;
}

void ConcurrencyControl::end_round(uint64_t now_ms) {
  note_time(now_ms);
  if (probing() || now_ms < began_ms_ + kLeastRoundMs) return;
  if (responses_ + failures_ < std::clamp(allowed_, kLeastResponses, kMostResponses)) return;
  if (failures_ >= kBadFailures && failures_ >= kBadShare * (failures_ + responses_)) {
    limit_ *= std::max(kLeastGradient, 1.0 - static_cast<double>(failures_) / (failures_ + responses_));
    slow_rounds_ = 0;
  } else if (responses_ > 0) {
    adapt(mean_ms());
    slow_ = slow_ || slow_rounds_ >= kSlowRounds || limit_ < probed_limit_ / 2;
    if (slow_ || fast_) request_probe(now_ms);
  }
  allow();
  begin_round(now_ms);
}

void ConcurrencyControl::adapt(double mean_ms) {
  last_mean_ms_ = mean_ms;
  const bool used = most_ * 2 > allowed_;
  // Until the probe of the first second, it may be that of an overload.
  if (base_ms_ == 0) base_ms_ = mean_ms;
  if (!measured_) return;
  if (mean_ms < kFast * base_ms_) fast_ = true;
  if (!used) {
    slow_rounds_ = 0;
    return;
  }
  const double most_ms = kTolerance * base_ms_ + kToleranceMs;
  const double gradient = std::clamp(most_ms / std::max(mean_ms, 0.1), kLeastGradient, 1.0);
  if (gradient < 1) starting_ = false;
  double room = full_ || gradient < 1 ? std::sqrt(limit_) : 0;
  if (starting_ && full_) room = std::max(room, limit_ / 2);
  const double next = limit_ * gradient + room;
  slow_rounds_ = next < kSlowGradient * limit_ ? slow_rounds_ + 1 : 0;
  limit_ = next;
}

void ConcurrencyControl::allow() {
  limit_ = std::clamp<double>(limit_, options_.min, options_.max);
  const double now = probing() ? std::max(probe_limit_, kLeastProbed) : limit_;
  allowed_ = static_cast<uint32_t>(now);
}

// ---- Probes ----

void ConcurrencyControl::request_probe(uint64_t now_ms) {
  const uint64_t at_ms = (now_ms / kProbeSoonMs + 1) * kProbeSoonMs;
  due_ms_ = std::min(due_ms_, at_ms);
  if (wish_) wish_->store(at_ms, std::memory_order_relaxed);
}

void ConcurrencyControl::schedule_probe(uint64_t now_ms) {
  uint64_t every_ms = kProbeEveryMs;
  while (static_cast<double>(every_ms) < kProbeShare * base_ms_) every_ms *= 2;
  if (!measured_) every_ms = kProbeSoonMs;
  due_ms_ = (now_ms / every_ms + 1) * every_ms;
}

void ConcurrencyControl::follow(uint64_t now_ms) {
  if (probing()) return end_step(now_ms);
  const bool first = due_ms_ == 0;
  const uint64_t due_ms = is_wished(now_ms) ? wish_->load(std::memory_order_relaxed) : due_ms_;
  const bool late = now_ms >= due_ms + kLeastStepMs;  // There were no requests when it was due.
  probed_ms_ = due_ms;
  if (first || late || base_ms_ == 0) return schedule_probe(now_ms);
  loaded_ms_ = before_ms_ = std::max(last_mean_ms_, base_ms_);
  // The first one begins far below what may be far too much.
  probe_limit_ = measured_ ? limit_ : 2 * std::sqrt(limit_);
  begin_step(now_ms);
}

void ConcurrencyControl::begin_step(uint64_t now_ms) {
  ++step_;
  probe_limit_ /= 2;
  step_ms_ = kLeastStepMs;
  while (step_ms_ < kMostStepMs && static_cast<double>(step_ms_) < kStepLatencies * before_ms_) step_ms_ *= 2;
  due_ms_ = now_ms + step_ms_;
  extensions_ = 0;
  allow();
  begin_round(now_ms);
}

void ConcurrencyControl::end_step(uint64_t now_ms) {
  const uint32_t enough = std::clamp(4 * allowed_, kFewResponses, kProbeResponses);
  if (responses_ < enough && ++extensions_ <= kMostExtensions) {
    due_ms_ = now_ms + step_ms_;
    return;
  }
  if (responses_ < kFewResponses) return end_probe(now_ms, base_ms_);
  const double mean = mean_ms();
  const bool known = measured_ && mean > kSame * base_ms_ && mean * kSame < base_ms_;
  const bool fell = mean < (known ? kFallsAll : kFalls) * before_ms_ && mean > kToleranceMs;
  measured_ = true;
  if (!fell || probe_limit_ < 2 * kLeastProbed || step_ == kMostSteps) return end_probe(now_ms, mean);
  before_ms_ = mean;
  begin_step(now_ms);
}

void ConcurrencyControl::end_probe(uint64_t now_ms, double base_ms) {
  step_ = 0;
  base_ms_ = base_ms;
  slow_rounds_ = 0;
  slow_ = fast_ = false;
  // More than a round may lower it by: a limit that is so high would take many rounds, which are long ones.
  const double gradient = (kTolerance * base_ms_ + kToleranceMs) / std::max(loaded_ms_, 1.0);
  if (gradient < kLeastGradient) limit_ = std::min(limit_, limit_ * gradient + std::sqrt(limit_));
  probed_limit_ = limit_;
  schedule_probe(now_ms);
  allow();
  begin_round(now_ms);
}

}  // namespace sluice
