#include "proxy/log/log_descriptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "absl/strings/str_cat.h"

namespace sluice {

namespace {

constexpr int kFlags = O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr mode_t kMode = 0640;

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

absl::StatusOr<int> opened_log(int fd, const std::string& target, std::string_view what) {
  if (fd >= 0) return fd;
  const int error = errno;
  return absl::ErrnoToStatus(error, absl::StrCat(what, " \"", target, "\": cannot be opened", advice(error)));
}

absl::StatusOr<int> open_log_path(const std::string& path, std::string_view what) {
  return opened_log(::open(path.c_str(), kFlags | O_CREAT, kMode), path, what);
}

bool is_same_file(int a, int b) {
  struct stat of_a, of_b;
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

bool is_stream(int fd) {
  struct stat status;
  return fstat(fd, &status) != 0 || !S_ISREG(status.st_mode);
}

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

ssize_t write_without_waiting(int fd, std::string_view piece) {
  const bool stream = is_stream(fd);
  // An iovec is not const, but writev() does not change the data.
  const iovec part{const_cast<char*>(piece.data()), stream ? std::min<size_t>(piece.size(), PIPE_BUF) : piece.size()};
  return write_without_waiting(fd, stream, &part, 1);
}

}  // namespace sluice
