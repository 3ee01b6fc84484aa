// The run-time log: the proxy's own messages, on standard error or elsewhere, and the counters on standard output.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "proxy/common/log_limit.h"
#include "proxy/log/log_line.h"
#include "proxy/log/log_sink.h"
#include "proxy/log/recent_lines.h"

namespace sluice {

/// Queues events for the log and text for standard output, and writes them on its own thread, so that no serving
/// thread waits for a slow reader or disk. While a reader takes nothing, up to kQueueBytes are queued for each of the
/// two; further lines are dropped and counted, and the next line that gets out is one that reports them.
class RunLog {
 public:
  static constexpr size_t kQueueBytes = size_t{256} * 1024;
  /// A longer line is cut.
  static constexpr size_t kMaxLineBytes = kMaxRunLogLineBytes;

  /// Lines go to `err` as text until configure(). The caller keeps ownership of the descriptors. They are reopened
  /// where that is possible, so that their flags do not change.
  explicit RunLog(int out = STDOUT_FILENO, int err = STDERR_FILENO);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// The log of the process. It is never destroyed: any thread may log at any time.
  static RunLog& process();

  /// Starts the thread. Before start() and after stop(), a line is written immediately, or dropped if that would block.
  void start();
  /// Writes the queued output, for at most one second, and ends the thread.
  void stop();

  /// Changes what is logged and how. `sink`: where to; null: as before. Lines that are queued still go to the earlier
  /// sink, but not if that is blocked.
  void configure(LogLevel level, LogStyle style, std::unique_ptr<LogSink> sink);
  /// Changes only which levels are logged. On any thread.
  void set_level(LogLevel level) { level_.store(level, std::memory_order_relaxed); }
  LogLevel level() const { return level_.load(std::memory_order_relaxed); }
  /// Opens a log that is a file again, after it was renamed. If that fails, the log goes on in the file that is open.
  absl::Status reopen();

  /// Whether events of this level are logged: for callers whose text costs something.
  bool enabled(LogLevel level) const { return level >= level_.load(std::memory_order_relaxed); }
  /// Queues an event, if its level is enabled. In text its line is `TIME LEVEL sluice: TEXT`.
  void line(LogLevel level, std::string_view text, const LogFields& fields = {});
  /// Queues `text`, which consists of whole lines, for standard output. It is queued entirely or dropped entirely.
  void print(std::string_view text);

  /// The events of a level so far, with those that were dropped later.
  uint64_t lines(LogLevel level) const { return lines_[static_cast<size_t>(level)].load(std::memory_order_relaxed); }
  /// The last warnings and errors that were logged, with those that were dropped later.
  const RecentLines& recent() const { return recent_; }
  /// The number of lines dropped from the log and from standard output.
  uint64_t lines_dropped() const;
  uint64_t prints_dropped() const;
  /// The number of lines that the sink refused, for example because a disk was full. They are dropped lines, too.
  uint64_t write_errors() const;

 private:
  class Prints;
  class Lines;
  class Thread;

  void ring();

  std::atomic<LogLevel> level_{LogLevel::kInfo};
  std::array<std::atomic<uint64_t>, kLogLevels> lines_{};
  RecentLines recent_;
  std::unique_ptr<Prints> prints_;
  std::unique_ptr<Lines> log_;
  int bell_ = -1;  // An eventfd. It stays open, because another thread may be in line() while stop() runs.
  std::unique_ptr<Thread> thread_;
};

/// Writes a line to the log of the process.
inline void log_line(LogLevel level, std::string_view text, const LogFields& fields = {}) {
  RunLog::process().line(level, text, fields);
}
/// Writes each line of `text` to the log of the process.
void log_lines(LogLevel level, std::string_view text);
/// Whether the log of the process takes lines of this level.
inline bool log_enabled(LogLevel level) { return RunLog::process().enabled(level); }

/// Whether `limit` admits one more line now. If not, the line counts as suppressed.
bool log_admits(LogLimit& limit, uint64_t now_ms);
/// For the end of a line that `limit` has admitted: how many were suppressed before it; empty if none were.
std::string left_out_text(LogLimit& limit);
/// The number of lines that a LogLimit has suppressed.
uint64_t log_lines_suppressed();

}  // namespace sluice
