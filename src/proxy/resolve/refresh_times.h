#pragma once

#include <algorithm>
#include <cstdint>

#include "proxy/config/model/resolve.h"

namespace sluice {

/// When a name is looked up again.
class RefreshTimes {
 public:
  explicit RefreshTimes(const config::Resolve& settings)
      : min_ms_(config::milliseconds(settings.min_ttl)), max_ms_(config::milliseconds(settings.max_ttl)) {}

  /// After an answer that is good for so long; 0 where it says nothing, as /etc/hosts does, and as an answer does that
  /// there is no such name.
  uint64_t after_answer_ms(uint32_t ttl_s) {
    fails_in_a_row_ = 0;
    return std::clamp(ttl_s == 0 ? kUntoldMs : uint64_t{ttl_s} * 1000, min_ms_, max_ms_);
  }
  /// After none: twice as long each time.
  uint64_t after_failure_ms() {
    const uint64_t pause_ms = kFirstRetryMs << std::min(fails_in_a_row_, 16U);
    ++fails_in_a_row_;
    return std::min(pause_ms, std::max(max_ms_, kFirstRetryMs));
  }
  uint32_t fails_in_a_row() const { return fails_in_a_row_; }

 private:
  static constexpr uint64_t kUntoldMs = 5000;  // Envoy's dns_refresh_rate.
  static constexpr uint64_t kFirstRetryMs = 500;

  uint64_t min_ms_, max_ms_;
  uint32_t fails_in_a_row_ = 0;
};

}  // namespace sluice
