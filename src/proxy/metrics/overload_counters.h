#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proxy/common/counter.h"

namespace sluice {

/// What a worker does against overload.
enum class OverloadAction : uint8_t {
  kCloseAfterResponse,  ///< An HTTP/1.1 connection ends with its response.
  kGoaway,              ///< An HTTP/2 connection ends because it has become idle.
  kReduceTimeouts,      ///< An idle connection ends before its idle timeout.
  kCloseConnection,     ///< A connection that holds much memory is closed.
  kRefuseConnection,    ///< A new connection is refused.
  kRefuseRequest,       ///< A request is refused, because requests wait for too long.
};
inline constexpr int kOverloadActionCount = 6;
const char* overload_action_name(OverloadAction action);

/// The counters of one worker. Only its thread writes them.
struct OverloadCounters {
  std::array<Counter, kOverloadActionCount> actions;
  Counter delay_ms;      ///< The shortest wait of an event in the last tenth of a second: see DelayControl.
  Counter shed_percent;  ///< The share of the requests of low priority that are refused.
  Counter closed_bytes;  ///< What the connections held that were closed.

  void add(OverloadAction action) { actions[static_cast<size_t>(action)].add(); }
};

}  // namespace sluice
