#include "proxy/log/run_log.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/log/line_writer.h"
#include "proxy/log/log_file.h"

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kExitPatience{1};
constexpr std::chrono::milliseconds kExitLook{10};
// A larger buffer is freed after use.
constexpr size_t kKeptBytes = size_t{16} * 1024;

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

int64_t wall_clock_ms() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// A peer's bytes must not imitate the start of another line or control a terminal.
void append_visible(std::string& line, std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      line += c;
    } else {
      line += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
}

std::string format_line(LogLevel level, std::string_view text) {
  constexpr std::string_view kCut = "...";
  std::array<char, 32> time;
  LineWriter writer(time.data());
  writer.time(wall_clock_ms());
  std::string line(time.data(), writer.end());
  absl::StrAppend(&line, " ", name_of(level), " sluice: ");
  append_visible(line, text.substr(0, RunLog::kMaxLineBytes));
  if (line.size() >= RunLog::kMaxLineBytes) {
    line.resize(RunLog::kMaxLineBytes - kCut.size() - 1);
    line += kCut;
  }
  line += '\n';
  return line;
}

uint64_t lines_in(std::string_view text) { return static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n')); }

std::atomic<uint64_t> suppressed{0};

}  // namespace

// The queued output for one descriptor.
class RunLog::Queue {
 public:
  enum class Result { kDone, kBlocked };

  explicit Queue(int own) : own_(own) {}
  ~Queue() { close_file(); }

  void open_file() { fd_ = open_own(own_); }
  void close_file() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int fd() const { return fd_; }
  int own() const { return own_; }

  // May be called on any thread. Returns false if the text was dropped. Sets `first` if the queue was empty.
  bool put(std::string_view text, bool& first) {
    const std::lock_guard lock(mutex_);
    if (!waiting_.empty() && waiting_.size() + text.size() > kQueueBytes) {
      dropped.fetch_add(lines_in(text), std::memory_order_relaxed);
      return false;
    }
    first = waiting_.empty();
    waiting_ += text;
    return true;
  }

  // For the writing thread.

  // Takes the queued text if all earlier text was written. Returns whether there is text to write.
  bool fill(bool report_dropped) {
    if (written_ < writing_.size()) return true;
    writing_.clear();
    if (writing_.capacity() > kKeptBytes) writing_.shrink_to_fit();
    written_ = 0;
    {
      const std::lock_guard lock(mutex_);
      std::swap(writing_, waiting_);
    }
    if (const uint64_t lost = dropped.load(std::memory_order_relaxed); report_dropped && lost != reported_) {
      writing_ += format_line(LogLevel::kWarning,
                              absl::StrCat("standard error accepts lines more slowly than they arrive; dropped: ",
                                           lost - reported_, ", in total: ", lost));
      reported_ = lost;
    }
    return !writing_.empty();
  }

  Result write() {
    while (written_ < writing_.size()) {
      const std::string_view rest = std::string_view(writing_).substr(written_);
      // Whole lines that a pipe writes atomically, if lines are short enough.
      size_t piece = std::min<size_t>(rest.size(), PIPE_BUF);
      if (const size_t end = rest.substr(0, piece).rfind('\n'); end != std::string_view::npos) piece = end + 1;
      const ssize_t result = write_without_waiting(fd_, rest.substr(0, piece));
      if (result > 0) {
        written_ += static_cast<size_t>(result);
      } else if (result < 0 && errno == EAGAIN) {
        return Result::kBlocked;
      } else if (result == 0 || errno != EINTR) {
        discard();
      }
    }
    return Result::kDone;
  }

  // Drops the text that is not yet written.
  void discard() {
    dropped.fetch_add(lines_in(std::string_view(writing_).substr(written_)), std::memory_order_relaxed);
    written_ = writing_.size();
    // Do not report these: the report would be lost too and cause another one.
    reported_ = dropped.load(std::memory_order_relaxed);
  }

  std::atomic<uint64_t> dropped{0};

 private:
  const int own_;
  std::mutex mutex_;
  std::string waiting_;  // Guarded by mutex_.
  int fd_ = -1;
  std::string writing_;
  size_t written_ = 0;  // Bytes of writing_ that are written.
  uint64_t reported_ = 0;
};

class RunLog::Thread {
 public:
  Thread(RunLog& log, int bell) : log_(log), bell_(bell), thread_([this] { run(); }) {}
  ~Thread() {
    stopping_.store(true, std::memory_order_release);
    eventfd_write(bell_, 1);
    thread_.join();
  }

 private:
  void run() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    Clock::time_point deadline = Clock::time_point::max();
    for (;;) {
      const bool stopping = stopping_.load(std::memory_order_acquire);
      if (stopping && deadline == Clock::time_point::max()) deadline = Clock::now() + kExitPatience;
      const bool blocked = write();
      if (stopping && (!blocked || Clock::now() >= deadline)) break;
      wait(stopping);
    }
    for (Queue* const queue : {log_.err_.get(), log_.out_.get()}) {
      if (queue->fill(false)) queue->discard();
    }
  }

  // Returns whether some output is blocked.
  bool write() {
    polls_.assign(1, {bell_, POLLIN, 0});
    for (Queue* const queue : {log_.err_.get(), log_.out_.get()}) {
      while (queue->fill(queue == log_.err_.get())) {
        if (queue->write() == Queue::Result::kDone) continue;
        polls_.push_back({queue->fd(), POLLOUT, 0});
        break;
      }
    }
    return polls_.size() > 1;
  }

  void wait(bool stopping) {
    poll(polls_.data(), polls_.size(), stopping ? static_cast<int>(kExitLook.count()) : -1);
    eventfd_t calls;
    if ((polls_[0].revents & POLLIN) != 0) eventfd_read(bell_, &calls);
  }

  RunLog& log_;
  const int bell_;
  std::atomic<bool> stopping_{false};
  std::vector<pollfd> polls_;
  std::thread thread_;
};

RunLog::RunLog(int out, int err) : out_(std::make_unique<Queue>(out)), err_(std::make_unique<Queue>(err)) {}

RunLog::~RunLog() {
  stop();
  if (bell_ >= 0) ::close(bell_);
}

RunLog& RunLog::process() {
  static RunLog* const log = new RunLog;
  return *log;
}

void RunLog::start() {
  if (bell_ < 0) bell_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (thread_ || bell_ < 0) return;
  out_->open_file();
  err_->open_file();
  thread_ = std::make_unique<Thread>(*this, bell_);
  running_.store(true, std::memory_order_release);
}

void RunLog::stop() {
  if (!thread_) return;
  running_.store(false, std::memory_order_release);
  thread_.reset();
  out_->close_file();
  err_->close_file();
}

void RunLog::put(Queue& queue, std::string_view text) {
  if (!running_.load(std::memory_order_acquire)) {
    if (write_without_waiting(queue.own(), text) < 0) {
      queue.dropped.fetch_add(lines_in(text), std::memory_order_relaxed);
    }
    return;
  }
  bool first = false;
  if (queue.put(text, first) && first) eventfd_write(bell_, 1);
}

void RunLog::line(LogLevel level, std::string_view text) { put(*err_, format_line(level, text)); }
void RunLog::print(std::string_view text) { put(*out_, text); }

uint64_t RunLog::lines_dropped() const { return err_->dropped.load(std::memory_order_relaxed); }
uint64_t RunLog::prints_dropped() const { return out_->dropped.load(std::memory_order_relaxed); }

void log_lines(LogLevel level, std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    log_line(level, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool log_admits(LogLimit& limit, uint64_t now_ms) {
  if (limit.admits(now_ms)) return true;
  suppressed.fetch_add(1, std::memory_order_relaxed);
  return false;
}

uint64_t log_lines_suppressed() { return suppressed.load(std::memory_order_relaxed); }

}  // namespace sluice
