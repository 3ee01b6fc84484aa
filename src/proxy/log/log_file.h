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

/// Where a log goes: a regular file, or what may take nothing for a while (a pipe, a terminal, a socket), which is
/// never waited for. Lines come out whole, also between those of other processes that append to the same file.
class LogFile {
 public:
  /// A path, or `stdout` or `stderr`, which are those of the process. A file is made where there is none. The error is
  /// for the user.
  static absl::StatusOr<std::unique_ptr<LogFile>> open(std::string target);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  const std::string& target() const { return target_; }

  /// Opens the path once more, for whoever writes to go on there. On any thread. After an error all stays as it was.
  absl::Status reopen();

  // On the thread that writes.

  enum class Result { kDone, kBlocked, kFailed };
  /// Writes what lies in `ring` when this is called and releases it, line by line; counts the lines. What was not
  /// written stays there: a line that was begun must be gone on with, by the same ring, before another is.
  Result write(LineRing& ring, Counter& written);
  /// Whether a line was begun.
  bool within_line() const { return begun_ > 0; }
  /// Goes on in the file of the last reopen(), if there was one.
  void take_reopened();
  /// Releases what lies in `ring`; returns how many lines are lost by it.
  static size_t discard(LineRing& ring);

  int fd() const { return fd_; }
  int error() const { return error_; }               ///< Of the last write that failed: errno.
  uint64_t bytes() const { return bytes_; }          ///< Written so far.
  const Counter& errors() const { return errors_; }  ///< Writes that failed.

 private:
  LogFile(std::string target, int fd);
  Result fail(int error);
  void use(int fd);

  const std::string target_;
  int fd_ = -1;
  bool is_stream_ = false;
  std::atomic<int> reopened_{-1};
  size_t begun_ = 0;  // Bytes of the line at the ring's front that were written already.
  uint64_t bytes_ = 0;
  int error_ = 0;
  Counter errors_;
};

/// A descriptor for what `own` is, in a file of its own where that can be had, so that O_NONBLOCK holds here only and
/// not for those who share the process's. Negative: there is none.
int open_own(int own);

/// As write(), for one piece: EAGAIN where it would have to wait. What is no regular file takes PIPE_BUF bytes or
/// fewer.
ssize_t write_without_waiting(int fd, std::string_view piece);

}  // namespace sluice
