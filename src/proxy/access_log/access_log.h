// Access logs: workers leave lines, one thread writes them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/common/counter.h"
#include "proxy/log/line_ring.h"

namespace sluice {

/// Where one worker leaves its lines for one log. Never waits, makes no system call but to wake the thread that writes
/// (when that sleeps, or the ring is half full), and takes its memory, LineRing::kBytes, with the first line.
///
///     if (std::span<char> room = writer.begin(); !room.empty()) writer.commit(format_access_line(record, room));
class AccessLogWriter {
 public:
  explicit AccessLogWriter(int bell) : bell_(bell) {}

  /// Room for a line of up to kMaxLogLineBytes, until commit or the next begin. Empty, and counted as dropped, while
  /// the log takes less than is left for it.
  std::span<char> begin() {
    const std::span<char> room = ring_.begin();
    if (room.empty()) dropped.add();
    return room;
  }
  /// Leaves the `bytes` bytes that were written there: a line with its '\n' and no other.
  void commit(size_t bytes) {
    if (ring_.commit(bytes)) ring_bell();
  }

  Counter dropped;  ///< Lines that found no room; once the logs are closed, also those that could not be written.
  Counter written;  ///< Lines that are in the file. The others wait.

 private:
  friend class AccessLogs;
  void ring_bell() const;

  const int bell_;  // An eventfd.
  LineRing ring_;
};

/// All access logs of a process, with the thread that writes them. A log that does not take lines, be it a full disk or
/// a pipe that nobody reads, holds up no other; its lines wait in the rings, and when these are full, are dropped. When
/// it takes lines again it goes on by itself. Standard error is told of it, at most once in ten seconds for each log,
/// and when it is over.
///
/// A line is in the file about 50 ms after its commit. Lines of a worker keep their order; between workers there is
/// none.
class AccessLogs {
 public:
  /// Opens each target: a path, `stdout` or `stderr`. Those named twice are one log. An error is for the user.
  static absl::StatusOr<std::unique_ptr<AccessLogs>> open(const std::vector<std::string>& targets, size_t workers);
  /// Closes.
  ~AccessLogs();
  AccessLogs(const AccessLogs&) = delete;
  AccessLogs& operator=(const AccessLogs&) = delete;

  /// For `targets[target]`. To be used by one thread at a time.
  AccessLogWriter& writer(size_t target, size_t worker);
  /// Of all workers, and of all targets that name the same log. On any thread.
  uint64_t written(size_t target) const;
  uint64_t dropped(size_t target) const;
  /// Writes that failed.
  uint64_t errors(size_t target) const;

  /// Opens the paths again, after files were renamed; a moment later all lines go to the new ones. No line is lost, or
  /// in two parts. A log whose path cannot be opened goes on where it was, and the error tells.
  absl::Status reopen();

  /// Writes what waits and ends the thread. For a log that is blocked it waits a second, and not at all for one whose
  /// writes fail. What writers leave later is lost; if none does, the counters are final.
  void close();

 private:
  struct Log;
  class Thread;

  AccessLogs();
  const Log& log(size_t target) const { return *logs_[log_of_target_[target]]; }

  std::vector<std::unique_ptr<Log>> logs_;
  std::vector<size_t> log_of_target_;
  int bell_ = -1;
  std::unique_ptr<Thread> thread_;  // Null: there is no log, or they are closed.
};

}  // namespace sluice
