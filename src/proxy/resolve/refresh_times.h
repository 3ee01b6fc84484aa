#pragma once

#include <algorithm>
#include <cstdint>

#include "proxy/config/model/resolve.h"

namespace sluice {

/// Computes when to look a name up again.
class RefreshTimes {
 public:
  explicit RefreshTimes(const config::Resolve& settings)
      : min_ms_(config::milliseconds(settings.min_ttl)), max_ms_(config::milliseconds(settings.max_ttl)) {}

  /// The delay after an answer with this TTL. The TTL is 0 if it is unknown, as for /etc/hosts and for an answer that
  /// the name does not exist.
  uint64_t after_answer_ms(uint32_t ttl_s) {
    fails_in_a_row_ = 0;
    return std::clamp(ttl_s == 0 ? kUnknownTtlMs : uint64_t{ttl_s} * 1000, min_ms_, max_ms_);
  }
  /// The delay after a failure: doubles with each failure in a row.
  uint64_t after_failure_ms() {
    const uint64_t pause_ms = kFirstRetryMs << std::min(fails_in_a_row_, 16U);
    ++fails_in_a_row_;
    return std::min(pause_ms, std::max(max_ms_, kFirstRetryMs));
  }
  uint32_t fails_in_a_row() const { return fails_in_a_row_; }

 private:
  static constexpr uint64_t kUnknownTtlMs = 5000;  // Envoy's dns_refresh_rate.
  static constexpr uint64_t kFirstRetryMs = 500;

  uint64_t min_ms_, max_ms_;
  uint32_t fails_in_a_row_ = 0;
};

}  // namespace sluice
