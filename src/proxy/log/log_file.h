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
#include "proxy/log/line_ring.h"

namespace sluice {

/// The destination of a log: a regular file, or a stream (a pipe, a terminal, a socket), which may block and is never
/// waited for. Lines stay whole, even when other processes append to the same file.
class LogFile {
 public:
  /// Opens a path, or `stdout` or `stderr` of the process. Creates the file if it does not exist. The error is for the
  /// user.
  static absl::StatusOr<std::unique_ptr<LogFile>> open(std::string target);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  const std::string& target() const { return target_; }

  /// Opens the path again; the writing thread switches to the new file in take_reopened(). May be called on any thread.
  /// After an error nothing changes.
  absl::Status reopen();

  // For the writing thread.

  enum class Result { kDone, kBlocked, kFailed };
  /// Writes the lines that `ring` holds at the time of the call, releases them one by one, and adds their number to
  /// `written`. After kBlocked or kFailed the rest stays in the ring. If a line was partly written (within_line()), the
  /// next call must be for the same ring.
  Result write(LineRing& ring, Counter& written);
  /// Whether a line was partly written.
  bool within_line() const { return begun_ > 0; }
  /// Switches to the file of the last reopen(), if there was one.
  void take_reopened();
  /// Discards the contents of `ring`. Returns the number of lines that are lost.
  static size_t discard(LineRing& ring);

  int fd() const { return fd_; }
  int error() const { return error_; }               ///< The errno of the last failed write.
  uint64_t bytes() const { return bytes_; }          ///< Bytes written so far.
  const Counter& errors() const { return errors_; }  ///< Writes that failed.

 private:
  LogFile(std::string target, int fd);
  Result fail(int error);
  void use(int fd);

  const std::string target_;
  int fd_ = -1;
  bool is_stream_ = false;
  std::atomic<int> reopened_{-1};
  size_t begun_ = 0;  // Bytes already written of the line at the ring's front.
  uint64_t bytes_ = 0;
  int error_ = 0;
  Counter errors_;
};

/// Opens a path for appending, and makes the file if there is none. `what` begins the error, which is for the user.
absl::StatusOr<int> open_log_path(const std::string& path, std::string_view what);

/// Whether two descriptors are of one file.
bool is_same_file(int a, int b);

/// Returns a new descriptor for the file that `own` refers to. If possible it has its own open file description, so
/// that O_NONBLOCK does not affect other processes that share `own`. Negative on failure.
int open_own(int own);

/// Like write(), but fails with EAGAIN instead of waiting. On anything but a regular file it writes at most PIPE_BUF
/// bytes.
ssize_t write_without_waiting(int fd, std::string_view piece);

}  // namespace sluice
