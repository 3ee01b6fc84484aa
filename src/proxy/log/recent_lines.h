#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "proxy/log/log_line.h"

namespace sluice {

/// The last warnings and errors of the run-time log, for operators who cannot read its file. Lines of a kind,
/// such as those of an endpoint that comes and goes, share a place, so that they do not push out the rest. Any thread
/// may call it.
class RecentLines {
 public:
  static constexpr size_t kLines = 50;
  /// Of a text; the rest of a longer one is cut.
  static constexpr size_t kTextBytes = 1024;

  struct Line {
    LogRecord last;
    uint64_t times = 1;    ///< Lines of this kind while it has been kept.
    int64_t first_ms = 0;  ///< The time of the first of them.
  };

  /// Keeps a copy of the record if it is a warning or an error. The kind that was seen least recently makes room.
  void add(const LogRecord& record);
  /// Copies of what is kept, the newest first.
  std::vector<Line> lines() const;

 private:
  mutable std::mutex mutex_;
  std::deque<Line> lines_;  // Guarded by mutex_. The newest one is at the back.
};

}  // namespace sluice
