// The run-time log: the proxy's own messages on standard error, and the counters on standard output.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "proxy/common/log_limit.h"

namespace sluice {

enum class LogLevel : uint8_t { kInfo, kWarning, kError };

/// Queues lines for standard error and text for standard output, and writes them on its own thread, so that no serving
/// thread waits for a slow reader. While a reader takes nothing, up to kQueueBytes are queued for each of the two;
/// further lines are dropped and counted, and a line reports them when the reader resumes.
class RunLog {
 public:
  static constexpr size_t kQueueBytes = size_t{256} * 1024;
  /// A longer line is cut.
  static constexpr size_t kMaxLineBytes = 4096;

  /// The caller keeps ownership of the descriptors. They are reopened where that is possible, so that their flags do
  /// not change.
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

  /// Queues the line `TIME LEVEL sluice: TEXT`. Control characters in `text` are written as `\xNN`.
  void line(LogLevel level, std::string_view text);
  /// Queues `text`, which consists of whole lines, for standard output. It is queued entirely or dropped entirely.
  void print(std::string_view text);

  /// The number of lines dropped from standard error and from standard output.
  uint64_t lines_dropped() const;
  uint64_t prints_dropped() const;

 private:
  class Queue;
  class Thread;

  void put(Queue& queue, std::string_view text);

  std::unique_ptr<Queue> out_, err_;
  std::atomic<bool> running_{false};
  int bell_ = -1;  // An eventfd. It stays open, because another thread may be in put() while stop() runs.
  std::unique_ptr<Thread> thread_;
};

/// Writes a line to the log of the process.
inline void log_line(LogLevel level, std::string_view text) { RunLog::process().line(level, text); }
/// Writes each line of `text` to the log of the process.
void log_lines(LogLevel level, std::string_view text);

/// Whether `limit` admits one more line now. If not, the line counts as suppressed.
bool log_admits(LogLimit& limit, uint64_t now_ms);
/// The number of lines that a LogLimit has suppressed.
uint64_t log_lines_suppressed();

}  // namespace sluice
