// Access logs: workers queue lines, and one thread writes them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/common/counter.h"
#include "proxy/log/line_queue.h"

namespace sluice {

/// The queue of one worker's lines for one log, of at most LineQueue::kBytes. It never waits, and makes a system call
/// only to wake the writing thread (when that sleeps, or when enough lines wait), and to map its memory for the first
/// line.
///
///     if (std::span<char> room = writer.begin(); !room.empty()) writer.commit(format_access_line(record, room));
class AccessLogWriter {
 public:
  explicit AccessLogWriter(int bell) : bell_(bell) {}

  /// Returns room for a line of up to kMaxLogLineBytes, valid until commit() or the next begin(). Empty if the queue
  /// has no room for a line; the line then counts as dropped.
  std::span<char> begin() {
    const std::span<char> room = queue_.begin();
    if (room.empty()) dropped.add();
    return room;
  }
  /// Queues the `bytes` bytes that were written into begin(): one line that ends with its only '\n'.
  void commit(size_t bytes) {
    if (queue_.commit(bytes)) ring_bell();
  }

  /// Lines that found no room, or are too long for a datagram. After AccessLogs::close(), also lines that could not be
  /// written.
  Counter dropped;
  Counter written;  ///< Lines written to the file.

 private:
  friend class AccessLogs;
  void ring_bell() const;

  const int bell_;  // An eventfd.
  LineQueue queue_;
};

/// All access logs of a process, with the thread that writes them. A log that does not accept lines (a full disk, a
/// pipe without a reader) does not delay the others: its lines stay in the queues, and when these are full, further
/// lines are dropped. Writing resumes by itself. The run-time log reports each problem at most once in ten seconds for
/// each log, and reports when it is over.
///
/// A line reaches the file about 50 ms after its commit(). The lines of one worker stay in order; there is no order
/// between workers.
class AccessLogs {
 public:
  /// Opens each target: a path, `stdout`, `stderr`, or a syslog daemon (config::names_syslog). Equal targets share one
  /// log. The error is for the user.
  static absl::StatusOr<std::unique_ptr<AccessLogs>> open(const std::vector<std::string>& targets, size_t workers);
  /// Opens the targets that are not open yet: all of them, or none. `targets[i]` has the index `result[i]`.
  absl::StatusOr<std::vector<size_t>> add(const std::vector<std::string>& targets);
  /// Closes all logs but those with these indices; another log may get their indices later. Lines that are queued are
  /// still written, as by close(). Nobody may use the writers of the closed logs any more.
  void keep_only(const std::vector<size_t>& used);
  ~AccessLogs();
  AccessLogs(const AccessLogs&) = delete;
  AccessLogs& operator=(const AccessLogs&) = delete;

  /// The writer for a target, by its index, on one worker. It may be used by one thread at a time.
  AccessLogWriter& writer(size_t target, size_t worker);
  /// The lines written and dropped, summed over all workers and over all targets that share the log; 0 for a log that
  /// is closed. May be called on any thread.
  uint64_t written(size_t target) const;
  uint64_t dropped(size_t target) const;
  /// The number of failed writes. May be called on any thread.
  uint64_t errors(size_t target) const;

  /// Reopens the paths after the files were renamed; shortly afterwards all lines go to the new files. No line is lost
  /// or split. A log whose path cannot be opened keeps its file, and the error names it.
  absl::Status reopen();

  /// Writes the queued lines and ends the thread. Waits up to one second for a blocked log, and not at all for one
  /// whose writes fail. Lines that writers commit later are lost; if there are none, the counters are final.
  void close();

 private:
  struct Log;
  class Thread;

  explicit AccessLogs(size_t workers);
  const Log* find(size_t target) const { return target < logs_.size() ? logs_[target].get() : nullptr; }

  const size_t workers_;
  mutable std::mutex mutex_;  // Guards what follows when it changes, and when the writing thread reads it.
  std::vector<std::unique_ptr<Log>> logs_;     // By index; null: not in use.
  std::vector<std::unique_ptr<Log>> closing_;  // For the writing thread, which takes them.
  bool changed_ = false;                       // Since the writing thread has read it.
  int bell_ = -1;
  std::unique_ptr<Thread> thread_;  // Null: there are no logs, or they are closed. Declared last: it uses the others.
};

}  // namespace sluice
