#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/common/peer_address.h"
#include "proxy/log/log_line.h"

namespace sluice {

/// Where the lines of a log go.
struct LogDestination {
  enum class Kind : uint8_t { kStderr, kFile, kSyslog };
  Kind kind = Kind::kStderr;
  std::string path;          ///< Of the file, or of the syslog daemon's socket; with `address`, its text.
  PeerAddress address = {};  ///< Of a syslog daemon that takes UDP; else not set.

  bool operator==(const LogDestination&) const = default;
};

/// An open destination of the run-time log, or a syslog daemon that gets an access log. Writing never waits for a
/// reader: it reports kBlocked. For the thread that writes, except where a method says otherwise.
class LogSink {
 public:
  enum class Result : uint8_t { kDone, kBlocked, kFailed };

  /// Opens a destination; makes the file if there is none. The error is for the user.
  /// `what` begins it.
  static absl::StatusOr<std::unique_ptr<LogSink>> open(const LogDestination& to, std::string_view what = "log");
  /// A stream of the caller's, such as standard error, whose descriptor the caller keeps.
  explicit LogSink(int own);
  ~LogSink();
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;

  /// Of a stream of the caller's: from now on uses a descriptor of its own, whose flags are not those of others; or no
  /// longer.
  void open_own();
  void close_own();

  /// How lines are to begin.
  LogFraming framing() const { return framing_; }
  /// For messages, such as `standard error`. May be called on any thread.
  std::string_view name() const { return name_; }
  bool is_stderr() const { return to_.kind == LogDestination::Kind::kStderr; }

  /// Writes a line from byte `written` on, which it advances. After kBlocked the next call is for the same line; after
  /// kFailed for another one, and error() is the reason.
  Result write(std::string_view line, size_t& written);
  int error() const { return error_; }
  /// To wait for writability after kBlocked.
  int fd() const { return fd_ >= 0 ? fd_ : own_; }

  /// Opens the path of a file again; take_reopened() switches to it. May be called on any thread. After an error
  /// nothing changes.
  absl::Status reopen();
  /// Switches to the file of the last reopen(), if there was one. A line that was partly written is written again.
  void take_reopened(size_t& written);

 private:
  explicit LogSink(LogDestination to);
  Result write_stream(std::string_view line, size_t& written);
  Result send(std::string_view line, size_t& written);
  Result fail(int error);
  int connect();  // Returns 0 or an errno.

  const LogDestination to_;
  const int own_ = -1;
  std::string name_;
  LogFraming framing_ = LogFraming::kPlain;
  int fd_ = -1;
  std::atomic<int> reopened_{-1};
  bool torn_ = false;  // The last line failed after a part of it was written.
  int error_ = 0;
};

}  // namespace sluice
