#include "proxy/log/log_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

namespace {

using Parts = std::array<iovec, 2>;

constexpr int kFlags = O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr mode_t kMode = 0640;

}  // namespace

// Regular files are duplicated, because all writers must share one file offset.
int open_own(int own) {
  struct stat status;
  if (fstat(own, &status) != 0) return -1;
  if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)) {
    const int fd = ::open(absl::StrCat("/proc/self/fd/", own).c_str(), kFlags);
    if (fd >= 0) return fd;
  }
  return fcntl(own, F_DUPFD_CLOEXEC, 0);
}

namespace {

const char* advice(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "; make the directory first";
    case EACCES:
    case EPERM:
      return "; the proxy's user needs write permission for the file, and for its directory where there is no file yet";
    case EISDIR:
      return "; give the name of a file in it";
    case ENXIO:
      return "; if it is a pipe, nobody reads from it yet; if it is a socket, give `stdout` or `stderr` instead of a "
             "path";
    case EROFS:
      return "; choose a file on a writable file system";
    case ENOSPC:
    case EDQUOT:
      return "; free space, or choose another file system";
    case EMFILE:
    case ENFILE:
      return "; raise `ulimit -n`";
    default:
      return "";
  }
}

bool is_own(const std::string& target) { return target == "stdout" || target == "stderr"; }

absl::StatusOr<int> opened(int fd, const std::string& target, std::string_view what) {
  if (fd >= 0) return fd;
  const int error = errno;
  return absl::ErrnoToStatus(error, absl::StrCat(what, " \"", target, "\": cannot be opened", advice(error)));
}

absl::StatusOr<int> open_target(const std::string& target) {
  constexpr std::string_view kWhat = "access log";
  if (!is_own(target)) return open_log_path(target, kWhat);
  return opened(open_own(target == "stdout" ? STDOUT_FILENO : STDERR_FILENO), target, kWhat);
}

std::string_view text(const iovec& part) { return {static_cast<const char*>(part.iov_base), part.iov_len}; }
size_t size(const Parts& parts) { return parts[0].iov_len + parts[1].iov_len; }

// The bytes from `begin` to `end`.
Parts window(const Parts& parts, size_t begin, size_t end) {
  Parts out;
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t length = parts[i].iov_len;
    const size_t from = std::min(begin, length);
    out[i] = {static_cast<char*>(parts[i].iov_base) + from, std::min(end, length) - from};
    begin -= from;
    end -= std::min(end, length);
  }
  return out;
}

// Returns the whole lines at the front that a pipe writes atomically, so that other processes cannot interleave; if the
// first line is longer than PIPE_BUF, its first PIPE_BUF bytes.
Parts piece(const Parts& parts) {
  const iovec& part = parts[0].iov_len > 0 ? parts[0] : parts[1];
  if (part.iov_len <= PIPE_BUF) return {part};
  const size_t end = text(part).rfind('\n', PIPE_BUF - 1);
  return {iovec{part.iov_base, end == std::string_view::npos ? PIPE_BUF : end + 1}};
}

struct Lines {
  size_t count = 0, bytes = 0;
};

// Counts the complete lines in the first `bytes` bytes.
Lines whole_lines(const Parts& parts, size_t bytes) {
  Lines lines;
  size_t before = 0;
  for (const iovec& part : window(parts, 0, bytes)) {
    for (size_t at = 0; (at = text(part).find('\n', at)) != std::string_view::npos;) {
      lines = {lines.count + 1, before + ++at};
    }
    before += part.iov_len;
  }
  return lines;
}

bool is_stream(int fd) {
  struct stat status;
  return fstat(fd, &status) != 0 || !S_ISREG(status.st_mode);
}

// Like writev(), but a stream fails with EAGAIN instead of waiting. Precondition for a stream: at most PIPE_BUF bytes.
ssize_t write_without_waiting(int fd, bool stream, const iovec* parts, int count) {
  if (!stream) return writev(fd, parts, count);
  const ssize_t bytes = pwritev2(fd, parts, count, -1, RWF_NOWAIT);
  if (bytes >= 0 || errno != EOPNOTSUPP) return bytes;
  // This kernel does not support RWF_NOWAIT here. A pipe that poll() reports as writable accepts PIPE_BUF bytes.
  pollfd writable{fd, POLLOUT, 0};
  if (poll(&writable, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return writev(fd, parts, count);
}

}  // namespace

absl::StatusOr<int> open_log_path(const std::string& path, std::string_view what) {
  return opened(::open(path.c_str(), kFlags | O_CREAT, kMode), path, what);
}

bool is_same_file(int a, int b) {
  struct stat of_a, of_b;
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

absl::StatusOr<std::unique_ptr<LogFile>> LogFile::open(std::string target) {
  if (target.empty()) return absl::InvalidArgumentError("access log: give a path, `stdout` or `stderr`");
  const auto fd = open_target(target);
  if (!fd.ok()) return fd.status();
  return std::unique_ptr<LogFile>(new LogFile(std::move(target), *fd));
}

LogFile::LogFile(std::string target, int fd) : target_(std::move(target)) { use(fd); }

LogFile::~LogFile() {
  close(fd_);
  if (const int fd = reopened_.load(); fd >= 0) close(fd);
}

void LogFile::use(int fd) {
  fd_ = fd;
  is_stream_ = is_stream(fd);
}

absl::Status LogFile::reopen() {
  if (is_own(target_)) return absl::OkStatus();
  const auto fd = open_target(target_);
  if (!fd.ok()) return fd.status();
  if (const int before = reopened_.exchange(*fd); before >= 0) close(before);
  return absl::OkStatus();
}

void LogFile::take_reopened() {
  const int fd = reopened_.exchange(-1);
  if (fd < 0) return;
  // A partly written line is written again, in full, to the new file.
  if (!is_same_file(fd, fd_)) begun_ = 0;
  close(fd_);
  use(fd);
}

LogFile::Result LogFile::fail(int error) {
  if (error == EAGAIN) return Result::kBlocked;
  error_ = error;
  errors_.add();
  return Result::kFailed;
}

LogFile::Result LogFile::write(LineRing& ring, Counter& written) {
  Parts rest = ring.unread();
  // If a line was partly written, finishes only that line, because other rings may be waiting.
  size_t left = begun_ > 0 ? begun_ + text(window(rest, begun_, size(rest))[0]).find('\n') + 1 : size(rest);
  while (left > 0) {
    Parts next = window(rest, begun_, left);
    if (is_stream_) next = piece(next);
    const ssize_t result = write_without_waiting(fd_, is_stream_, next.data(), static_cast<int>(next.size()));
    if (result < 0 && errno == EINTR) continue;
    if (result <= 0) return fail(result < 0 ? errno : EIO);
    bytes_ += static_cast<size_t>(result);
    begun_ += static_cast<size_t>(result);
    const Lines whole = whole_lines(rest, begun_);
    ring.release(whole.bytes);
    written.add(whole.count);
    begun_ -= whole.bytes;
    left -= whole.bytes;
    rest = ring.unread();
  }
  return Result::kDone;
}

size_t LogFile::discard(LineRing& ring) {
  const Parts rest = ring.unread();
  ring.release(size(rest));
  return whole_lines(rest, size(rest)).count;
}

ssize_t write_without_waiting(int fd, std::string_view piece) {
  const bool stream = is_stream(fd);
  // An iovec is not const, but writev() does not change the data.
  const iovec part{const_cast<char*>(piece.data()), stream ? std::min<size_t>(piece.size(), PIPE_BUF) : piece.size()};
  return write_without_waiting(fd, stream, &part, 1);
}

}  // namespace sluice
