// The run-time log: what the proxy says of itself on standard error, and the counters on standard output.
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

/// Queues lines for standard error, and texts for standard output, and writes them on a thread of its own: no thread
/// that serves ever waits for whoever reads them. While a reader takes nothing, up to kQueueBytes wait for each of the
/// two; then more is dropped and counted, and a line says so when the reader goes on.
class RunLog {
 public:
  static constexpr size_t kQueueBytes = size_t{256} * 1024;
  /// A longer line is cut.
  static constexpr size_t kMaxLineBytes = 4096;

  /// The descriptors are not owned; they are opened anew where that is possible, so that their flags stay as they are.
  explicit RunLog(int out = STDOUT_FILENO, int err = STDERR_FILENO);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// The one of the process. It is never destroyed: any thread may log at any time.
  static RunLog& process();

  /// Starts the thread. Before that, and after stop(), a line is written at once, or dropped where that would have to
  /// wait.
  void start();
  /// Writes what waits, for at most a second, and ends the thread.
  void stop();

  /// Queues the line `TIME LEVEL sluice: TEXT`. Control characters in `text` are written as `\xNN`.
  void line(LogLevel level, std::string_view text);
  /// Queues `text`, whole lines, for standard output: all of it or nothing.
  void print(std::string_view text);

  /// Lines that were dropped, of standard error and of standard output.
  uint64_t lines_dropped() const;
  uint64_t prints_dropped() const;

 private:
  class Queue;
  class Thread;

  void put(Queue& queue, std::string_view text);

  std::unique_ptr<Queue> out_, err_;
  std::atomic<bool> running_{false};
  int bell_ = -1;  // An eventfd, which stays open: a line may be on its way here while stop() runs.
  std::unique_ptr<Thread> thread_;
};

/// A line of the process's log.
inline void log_line(LogLevel level, std::string_view text) { RunLog::process().line(level, text); }
/// The same for each line of `text`.
void log_lines(LogLevel level, std::string_view text);

/// Whether `limit` admits one more line now. If not, it is counted.
bool log_admits(LogLimit& limit, uint64_t now_ms);
/// Lines that were left out because there were too many of their kind in a second.
uint64_t log_lines_suppressed();

}  // namespace sluice
