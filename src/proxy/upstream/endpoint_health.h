#pragma once

#include <atomic>
#include <cstdint>

#include "proxy/common/counter.h"

namespace sluice {

/// What is known of an endpoint beside whether it can be connected to; shared by all workers. Ejections writes what is
/// about errors, the one worker that checks the endpoint what is about checks; all read it for each choice.
struct EndpointHealth {
  std::atomic<bool> healthy{true};            ///< Not so: its checks fail.
  std::atomic<uint64_t> ejected_until_ms{0};  ///< 0: it is not ejected. Else Ejections brings it back then.
  std::atomic<uint32_t> errors_in_a_row{0};   ///< Of requests.
  std::atomic<uint32_t> gateway_errors_in_a_row{0};
  std::atomic<uint32_t> ejections_in_a_row{0};  ///< What the time of the next is reckoned from; see Ejections.

  std::atomic<uint32_t> incarnation{0};  ///< Another number when it has become another endpoint.

  Counter checks;           ///< With an outcome; and of these,
  Counter failed_checks;    ///< those that were not passed.
  Counter checks_not_made;  ///< For want of something of ours, such as a descriptor.
  std::atomic<uint64_t> ejections{0};

  /// As of an endpoint of which nothing is known. What is counted stays.
  void begin_anew() {
    healthy.store(true, std::memory_order_relaxed);
    ejected_until_ms.store(0, std::memory_order_relaxed);
    errors_in_a_row.store(0, std::memory_order_relaxed);
    gateway_errors_in_a_row.store(0, std::memory_order_relaxed);
    ejections_in_a_row.store(0, std::memory_order_relaxed);
    incarnation.fetch_add(1, std::memory_order_relaxed);
  }
  /// Whether it is to be chosen, as far as this goes.
  bool in() const {
    return healthy.load(std::memory_order_relaxed) && ejected_until_ms.load(std::memory_order_relaxed) == 0;
  }
};

}  // namespace sluice
