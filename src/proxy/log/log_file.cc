#include "proxy/log/log_file.h"

#include <time.h>
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
#include "proxy/log/log_descriptor.h"
#include "proxy/log/log_line.h"
#include "proxy/log/log_sink.h"

namespace sluice {

namespace {

using Parts = LineQueue::Parts;

bool is_own(const std::string& target) { return target == "stdout" || target == "stderr"; }

absl::StatusOr<int> open_target(const std::string& target) {
  constexpr std::string_view kWhat = "access log";
  if (!is_own(target)) return open_log_path(target, kWhat);
  return opened_log(open_own(target == "stdout" ? STDOUT_FILENO : STDERR_FILENO), target, kWhat);
}

std::string_view text(const iovec& part) { return {static_cast<const char*>(part.iov_base), part.iov_len}; }
// The first part that holds something, if one does.
const iovec* first(const Parts& parts) {
  return std::find_if(parts.begin(), parts.end(), [](const iovec& part) { return part.iov_len > 0; });
}
// How many parts are in use.
int count(const Parts& parts) {
  const auto last = std::find_if(parts.rbegin(), parts.rend(), [](const iovec& part) { return part.iov_len > 0; });
  return static_cast<int>(parts.rend() - last);
}

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
  const iovec& part = *first(parts);
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

}  // namespace

absl::StatusOr<std::unique_ptr<LogFile>> LogFile::open(std::string target) {
  if (target.empty()) return absl::InvalidArgumentError("access log: give a path, `stdout` or `stderr`");
  const auto fd = open_target(target);
  if (!fd.ok()) return fd.status();
  return std::unique_ptr<LogFile>(new LogFile(std::move(target), *fd));
}

absl::StatusOr<std::unique_ptr<LogFile>> LogFile::open_syslog(std::string target, const LogDestination& to) {
  auto sink = LogSink::open(to, "access log");
  if (!sink.ok()) return sink.status();
  std::unique_ptr<LogFile> made(new LogFile(std::move(target), -1));
  made->syslog_ = *std::move(sink);
  return made;
}

LogFile::LogFile(std::string target, int fd) : target_(std::move(target)) { use(fd); }

LogFile::~LogFile() {
  if (fd_ >= 0) close(fd_);
  if (const int fd = reopened_.load(); fd >= 0) close(fd);
}

void LogFile::use(int fd) {
  fd_ = fd;
  is_stream_ = is_stream(fd);
}

int LogFile::fd() const { return syslog_ ? syslog_->fd() : fd_; }

absl::Status LogFile::reopen() {
  if (syslog_ || is_own(target_)) return absl::OkStatus();
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

// One datagram for each line. A daemon that has gone is connected to again (LogSink).
LogFile::Result LogFile::send(LineQueue& queue, Counter& written, Counter& dropped) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const std::string header =
      syslog_header(int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000, LogLevel::kInfo, "access");
  for (size_t left = queue.unread().bytes; left > 0;) {
    const std::string_view lines = text(queue.unread().parts[0]);
    const std::string_view line = lines.substr(0, lines.find('\n') + 1);
    message_.assign(header).append(line);
    size_t sent = 0;
    const LogSink::Result result = syslog_->write(message_, sent);
    if (result == LogSink::Result::kBlocked) return Result::kBlocked;
    const bool too_long = result == LogSink::Result::kFailed && syslog_->error() == EMSGSIZE;
    if (result == LogSink::Result::kFailed && !too_long) return fail(syslog_->error());
    too_long ? dropped.add() : written.add();
    bytes_ += line.size();
    left -= line.size();
    queue.release(line.size(), 1);
  }
  return Result::kDone;
}

LogFile::Result LogFile::write(LineQueue& queue, Counter& written, Counter& dropped) {
  if (syslog_) return send(queue, written, dropped);
  LineQueue::Unread rest = queue.unread();
  // If a line was partly written, finishes only that line, because other queues may be waiting.
  size_t left = begun_ > 0 ? begun_ + text(window(rest.parts, begun_, rest.bytes)[0]).find('\n') + 1 : rest.bytes;
  while (left > 0) {
    Parts next = window(rest.parts, begun_, left);
    if (is_stream_) next = piece(next);
    const ssize_t result = write_without_waiting(fd_, is_stream_, next.data(), count(next));
    if (result < 0 && errno == EINTR) continue;
    if (result <= 0) return fail(result < 0 ? errno : EIO);
    bytes_ += static_cast<size_t>(result);
    begun_ += static_cast<size_t>(result);
    // To count lines is to read them, which takes longer than all else here: they are in the worker's cache.
    const Lines whole = begun_ == rest.bytes ? Lines{rest.lines, rest.bytes} : whole_lines(rest.parts, begun_);
    queue.release(whole.bytes, whole.count);
    written.add(whole.count);
    begun_ -= whole.bytes;
    left -= whole.bytes;
    rest = queue.unread();
  }
  return Result::kDone;
}

size_t LogFile::discard(LineQueue& queue) {
  const LineQueue::Unread rest = queue.unread();
  queue.release(rest.bytes, rest.lines);
  return rest.lines;
}

}  // namespace sluice
