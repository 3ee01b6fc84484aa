#pragma once

#include <cstdint>

#include "net/timer_wheel.h"
#include "net/worker.h"

namespace sluice {

/// The times from which the deadlines of an exchange count, and the one timer for all of them. Activity only records
/// the time: when the timer fires, the deadlines are compared with it.
struct RequestDeadlines {
  static constexpr uint64_t kNever = UINT64_MAX;

  enum class Kind : uint8_t { kWhole, kIdle, kResponse, kBody, kStuck, kSend, kHedge, kRetry };

  struct Deadline {
    Kind kind;
    uint64_t due = kNever;   ///< When it expires if nothing changes; kNever: nothing is waited for at the moment.
    uint64_t look = kNever;  ///< When to look again at the latest: the wait may begin without notice.
  };

  /// `look` is called when a deadline may have expired.
  RequestDeadlines(Worker& loop, void (*look)(void* context), void* context)
      : timer(look, context), started_ms(loop.now_ms()) {}

  Timer timer;
  uint64_t started_ms;
  uint64_t whole_due_ms = kNever;     ///< For the whole exchange.
  uint64_t active_ms = started_ms;    ///< Data last moved in any direction.
  uint64_t request_ms = started_ms;   ///< Request data last arrived, or reading resumed.
  uint64_t response_ms = started_ms;  ///< The client last took response data.
  uint64_t passed_ms = 0;             ///< The upstream last took request data.
  uint64_t waiting_since_ms = 0;      ///< The request was complete at the upstream, or began to wait to be sent.
  uint64_t retry_ms = kNever;         ///< When the request is resent, if a retry is scheduled.
};

}  // namespace sluice
