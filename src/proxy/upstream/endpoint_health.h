#pragma once

#include <atomic>
#include <cstdint>

#include "proxy/common/counter.h"

namespace sluice {

/// The state of an endpoint apart from connection failures, shared by all workers and read for each choice. Ejections
/// writes the fields about errors; the one worker that checks the endpoint writes those about checks.
struct EndpointHealth {
  std::atomic<bool> healthy{true};              ///< False while its health checks fail.
  std::atomic<uint64_t> unhealthy_since_ms{0};  ///< When they began to.
  std::atomic<uint64_t> ejected_until_ms{0};    ///< When Ejections ends the ejection; 0: not ejected.
  std::atomic<uint64_t> ejected_since_ms{0};    ///< When the last ejection began.
  std::atomic<uint32_t> errors_in_a_row{0};     ///< Failed requests in a row.
  std::atomic<uint32_t> gateway_errors_in_a_row{0};
  std::atomic<uint32_t> ejections_in_a_row{0};  ///< Determines the duration of the next; see Ejections.

  std::atomic<uint32_t> incarnation{0};  ///< Changes when the slot gets another endpoint.

  Counter checks;           ///< Health checks with an outcome.
  Counter failed_checks;    ///< Health checks that failed.
  Counter checks_not_made;  ///< Not made for a local reason, such as lack of a descriptor.
  std::atomic<uint64_t> ejections{0};

  /// Takes over the state and the counters of the same endpoint in another configuration.
  void continue_from(const EndpointHealth& old) {
    const auto copy = [](auto& to, const auto& from) {
      to.store(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
    };
    copy(healthy, old.healthy);
    copy(unhealthy_since_ms, old.unhealthy_since_ms);
    copy(ejected_until_ms, old.ejected_until_ms);
    copy(ejected_since_ms, old.ejected_since_ms);
    copy(errors_in_a_row, old.errors_in_a_row);
    copy(gateway_errors_in_a_row, old.gateway_errors_in_a_row);
    copy(ejections_in_a_row, old.ejections_in_a_row);
    checks.set(old.checks.value());
    failed_checks.set(old.failed_checks.value());
    checks_not_made.set(old.checks_not_made.value());
    copy(ejections, old.ejections);
  }
  /// Resets the state to that of an unknown endpoint. The counters keep their values.
  void begin_anew() {
    healthy.store(true, std::memory_order_relaxed);
    ejected_until_ms.store(0, std::memory_order_relaxed);
    errors_in_a_row.store(0, std::memory_order_relaxed);
    gateway_errors_in_a_row.store(0, std::memory_order_relaxed);
    ejections_in_a_row.store(0, std::memory_order_relaxed);
    incarnation.fetch_add(1, std::memory_order_relaxed);
  }
  /// Resets the counters. Nothing else may use the endpoint meanwhile.
  void reset_counters() {
    for (Counter* const each : {&checks, &failed_checks, &checks_not_made}) each->set(0);
    ejections.store(0, std::memory_order_relaxed);
  }
  /// Whether health checks and ejections allow it to be chosen.
  bool in() const {
    return healthy.load(std::memory_order_relaxed) && ejected_until_ms.load(std::memory_order_relaxed) == 0;
  }
};

}  // namespace sluice
