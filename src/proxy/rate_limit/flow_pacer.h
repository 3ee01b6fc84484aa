#pragma once

#include <cstddef>
#include <cstdint>

#include "net/timer_wheel.h"
#include "proxy/rate_limit/bandwidth.h"

namespace sluice {

class Worker;

/// One direction of a connection whose bytes pass as they come, and which is read at the rate of its limits: after a
/// piece has passed, the next one is not read before its turn. It holds no bytes.
class FlowPacer {
 public:
  /// Called when a wait is over.
  using Turn = void (*)(void* context);

  /// The limits and the worker outlive it.
  FlowPacer(Worker& worker, const Bandwidth& limits, Turn turn, void* context)
      : worker_(worker), limits_(limits), timer_(turn, context) {}

  /// Counts bytes that have passed, and begins to wait if the next ones have to.
  void charge(size_t bytes);
  /// Whether nothing may be read now. Turn is called once this is over.
  bool waits() const { return timer_.armed(); }
  /// Whether connections of one key get equal parts only if each receive brings little.
  bool is_slow() const { return !limits_.empty() && limits_.bytes_per_second() < kSlowBytesPerSecond; }

 private:
  // At this rate receives of 1 MiB, the most that one brings, are 16 ms apart.
  static constexpr uint64_t kSlowBytesPerSecond = uint64_t{64} << 20;

  Worker& worker_;
  Bandwidth limits_;
  Timer timer_;
};

/// Those of a TCP connection.
struct FlowPacers {
  FlowPacers(Worker& worker, const Bandwidth& up, FlowPacer::Turn up_turn, const Bandwidth& down,
             FlowPacer::Turn down_turn, void* context)
      : upload(worker, up, up_turn, context), download(worker, down, down_turn, context) {}

  FlowPacer upload, download;

  bool either_waits() const { return upload.waits() || download.waits(); }
};

}  // namespace sluice
