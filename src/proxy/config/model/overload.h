// What the process does when it has more to do, or holds more, than it can.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "proxy/config/model/units.h"

namespace sluice::config {

/// Which requests of a listener are refused first while a worker is overloaded.
enum class Priority : uint8_t {
  kHigh,    ///< Never.
  kNormal,  ///< When refusing all requests of low priority is not enough.
  kLow,     ///< First.
};
inline constexpr int kPriorityCount = 3;

/// Marks of the memory in use, in percent of its limit. Each must be above the one before.
struct OverloadMemory {
  bool enabled = true;
  /// Of the resident memory. Absent: the memory limits of the process's cgroups apply to what they count; without any,
  /// the machine's memory is the limit of the resident memory.
  std::optional<Size> limit;
  /// From here on connections end after their response, and what waits in memory is reduced. 80: what remains of 256
  /// MiB is as much as 16 connections may hold with large windows.
  uint32_t reduce = 80;
  /// From here on those that hold most are closed. They pay before anybody else does.
  uint32_t close = 90;
  uint32_t refuse = 95;  ///< From here on new connections are refused.

  bool operator==(const OverloadMemory&) const = default;
};

/// When a worker has more requests than processor time: see docs/internals/decisions/overload.md.
struct OverloadDelay {
  /// How long events may wait for their turn of the loop. 0: nothing is refused.
  Duration target = std::chrono::milliseconds(50);
  /// How long they must have waited longer than that, without an exception, before a request is refused.
  Duration interval = std::chrono::milliseconds(500);
  /// The highest priority of which requests are refused. kLow: without routes of low priority nothing is, as a refusal
  /// costs half of what a small request does.
  Priority refuse = Priority::kLow;

  bool operator==(const OverloadDelay&) const = default;
};

struct Overload {
  OverloadMemory memory;
  OverloadDelay delay;

  bool operator==(const Overload&) const = default;
};

}  // namespace sluice::config
