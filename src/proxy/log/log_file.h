#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/common/counter.h"
#include "proxy/log/line_queue.h"

namespace sluice {

class LogSink;
struct LogDestination;

/// The destination of an access log: a regular file, a stream (a pipe, a terminal, a socket), which may block and is
/// never waited for, or a syslog daemon, which gets each line as a datagram. Lines stay whole, even when other
/// processes append to the same file.
class LogFile {
 public:
  /// Opens a path, or `stdout` or `stderr` of the process. Creates the file if it does not exist. The error is for the
  /// user.
  static absl::StatusOr<std::unique_ptr<LogFile>> open(std::string target);
  /// Connects to a syslog daemon. `target` is its name in messages.
  static absl::StatusOr<std::unique_ptr<LogFile>> open_syslog(std::string target, const LogDestination& to);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  const std::string& target() const { return target_; }

  /// Opens the path again; the writing thread switches to the new file in take_reopened(). May be called on any thread.
  /// After an error nothing changes.
  absl::Status reopen();

  // For the writing thread.

  enum class Result { kDone, kBlocked, kFailed };
  /// Writes the lines that `queue` holds at the time of the call, releases them one by one, and adds their number to
  /// `written`. After kBlocked or kFailed the rest stays in the queue, but a line that is too long for a datagram is
  /// added to `dropped`. If a line was partly written (within_line()), the next call must be for the same queue.
  Result write(LineQueue& queue, Counter& written, Counter& dropped);
  /// Whether a line was partly written.
  bool within_line() const { return begun_ > 0; }
  /// Switches to the file of the last reopen(), if there was one.
  void take_reopened();
  /// Discards the contents of `queue`. Returns the number of lines that are lost.
  static size_t discard(LineQueue& queue);

  int fd() const;
  int error() const { return error_; }               ///< The errno of the last failed write.
  uint64_t bytes() const { return bytes_; }          ///< Bytes written so far.
  const Counter& errors() const { return errors_; }  ///< Writes that failed.

 private:
  LogFile(std::string target, int fd);
  Result send(LineQueue& queue, Counter& written, Counter& dropped);
  Result fail(int error);
  void use(int fd);

  const std::string target_;
  std::unique_ptr<LogSink> syslog_;  // Null: a file or a stream.
  std::string message_;              // For syslog_: a line with its header.
  int fd_ = -1;
  bool is_stream_ = false;
  std::atomic<int> reopened_{-1};
  size_t begun_ = 0;  // Bytes already written of the line at the queue's front.
  uint64_t bytes_ = 0;
  int error_ = 0;
  Counter errors_;
};

}  // namespace sluice
