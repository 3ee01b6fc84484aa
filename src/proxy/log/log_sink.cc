#include "proxy/log/log_sink.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/log/log_descriptor.h"

namespace sluice {

namespace {

// Whether the service manager has connected this stream to the journal (systemd.exec(5), JOURNAL_STREAM).
bool is_journal(int fd) {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat status;
  return stream && fstat(fd, &status) == 0 && absl::StrCat(status.st_dev, ":", status.st_ino) == stream;
}

const char* syslog_advice(int error) {
  switch (error) {
    case ENOENT:
    case ECONNREFUSED:
      return "; start the syslog daemon, or name its socket, as in syslog:/dev/log";
    case EACCES:
    case EPERM:
      return "; the proxy's user needs write permission for the socket";
    case EPROTOTYPE:
    case ENOTSOCK:
      return "; it must be a Unix datagram socket";
    default:
      return "";
  }
}

// Whether the receiver of datagrams has gone, and another one may be there.
bool is_gone(int error) {
  return error == ECONNREFUSED || error == ECONNRESET || error == ENOTCONN || error == EPIPE || error == EDESTADDRREQ ||
         error == EBADF;
}

}  // namespace

LogSink::LogSink(int own) : own_(own), name_("standard error") {
  if (is_journal(own)) framing_ = LogFraming::kJournal;
}

LogSink::LogSink(LogDestination to) : to_(std::move(to)) {
  const bool is_syslog = to_.kind == LogDestination::Kind::kSyslog;
  name_ = is_syslog ? absl::StrCat("syslog (", to_.path, ")") : to_.path;
  if (is_syslog) framing_ = LogFraming::kSyslog;
}

LogSink::~LogSink() {
  if (fd_ >= 0) ::close(fd_);
  if (const int fd = reopened_.load(); fd >= 0) ::close(fd);
}

absl::StatusOr<std::unique_ptr<LogSink>> LogSink::open(const LogDestination& to, std::string_view what) {
  if (to.kind == LogDestination::Kind::kStderr) {
    auto sink = std::make_unique<LogSink>(STDERR_FILENO);
    sink->open_own();
    return sink;
  }
  std::unique_ptr<LogSink> sink(new LogSink(to));
  if (to.kind == LogDestination::Kind::kSyslog) {
    if (!to.address.is_set() && to.path.size() >= sizeof(sockaddr_un::sun_path)) {
      return absl::InvalidArgumentError(absl::StrCat(what, " \"syslog:", to.path,
                                                     "\": the path of a socket has at most ",
                                                     sizeof(sockaddr_un::sun_path) - 1, " bytes"));
    }
    // The network of a daemon that takes UDP may come later: send() tries again.
    if (const int error = sink->connect(); error != 0 && !to.address.is_set()) {
      return absl::ErrnoToStatus(
          error, absl::StrCat(what, " \"syslog:", to.path, "\": cannot be connected to", syslog_advice(error)));
    }
    return sink;
  }
  const absl::StatusOr<int> fd = open_log_path(to.path, what);
  if (!fd.ok()) return fd.status();
  sink->fd_ = *fd;
  return sink;
}

void LogSink::open_own() {
  if (fd_ < 0) fd_ = sluice::open_own(own_);
}

void LogSink::close_own() {
  if (own_ >= 0 && fd_ >= 0) ::close(std::exchange(fd_, -1));
}

int LogSink::connect() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  PeerAddress address = to_.address;
  if (!address.is_set()) {
    sockaddr_un of_path{};
    of_path.sun_family = AF_UNIX;
    to_.path.copy(of_path.sun_path, sizeof of_path.sun_path - 1);
    address = PeerAddress::copy_of(reinterpret_cast<const sockaddr*>(&of_path), sizeof of_path);
  }
  fd_ = socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ >= 0 && ::connect(fd_, address.data(), address.length) == 0) return 0;
  const int error = errno;
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  return error;
}

LogSink::Result LogSink::fail(int error) {
  if (error == EAGAIN) return Result::kBlocked;
  error_ = error;
  return Result::kFailed;
}

LogSink::Result LogSink::write(std::string_view line, size_t& written) {
  return framing_ == LogFraming::kSyslog ? send(line, written) : write_stream(line, written);
}

LogSink::Result LogSink::write_stream(std::string_view line, size_t& written) {
  while (written < line.size() || torn_) {
    const std::string_view piece = torn_ ? "\n" : line.substr(written, PIPE_BUF);
    const ssize_t result = write_without_waiting(fd(), piece);
    if (result > 0) {
      if (!std::exchange(torn_, false)) written += static_cast<size_t>(result);
    } else if (result == 0 || errno != EINTR) {
      const Result outcome = fail(result < 0 ? errno : EIO);
      if (outcome == Result::kFailed && written > 0) torn_ = true;
      return outcome;
    }
  }
  return Result::kDone;
}

// One datagram for each line, without its newline.
LogSink::Result LogSink::send(std::string_view line, size_t& written) {
  const auto try_once = [&] { return ::send(fd_, line.data(), line.size() - 1, MSG_NOSIGNAL | MSG_DONTWAIT); };
  ssize_t result = try_once();
  if (result < 0 && is_gone(errno)) {
    if (const int error = connect(); error != 0) return fail(error);
    result = try_once();
  }
  if (result < 0) return fail(errno);
  written = line.size();
  return Result::kDone;
}

absl::Status LogSink::reopen() {
  if (to_.kind != LogDestination::Kind::kFile) return absl::OkStatus();
  const absl::StatusOr<int> fd = open_log_path(to_.path, "log");
  if (!fd.ok()) return fd.status();
  if (const int before = reopened_.exchange(*fd); before >= 0) ::close(before);
  return absl::OkStatus();
}

void LogSink::take_reopened(size_t& written) {
  const int fd = reopened_.exchange(-1);
  if (fd < 0) return;
  if (!is_same_file(fd, fd_)) {
    written = 0;
    torn_ = false;
  }
  ::close(std::exchange(fd_, fd));
}

}  // namespace sluice
