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
// More than what a burst needs is given back.
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

// No byte of a peer may look like the beginning of another line, or steer a terminal.
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

// What waits for one descriptor.
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

  // On any thread. False: it was dropped. `first`: nothing waited before.
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

  // On the thread that writes.

  // Whether there is something to be written.
  bool fill(bool tell_dropped) {
    if (written_ < writing_.size()) return true;
    writing_.clear();
    if (writing_.capacity() > kKeptBytes) writing_.shrink_to_fit();
    written_ = 0;
    {
      const std::lock_guard lock(mutex_);
      std::swap(writing_, waiting_);
    }
    if (const uint64_t lost = dropped.load(std::memory_order_relaxed); tell_dropped && lost != told_) {
      writing_ += format_line(LogLevel::kWarning,
                              absl::StrCat("standard error takes lines slower than they come; dropped: ", lost - told_,
                                           ", in all: ", lost));
      told_ = lost;
    }
    return !writing_.empty();
  }

  Result write() {
    while (written_ < writing_.size()) {
      const std::string_view rest = std::string_view(writing_).substr(written_);
      // Whole lines that a pipe takes in one piece, as far as lines fit.
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

  // What has not been written is lost.
  void discard() {
    dropped.fetch_add(lines_in(std::string_view(writing_).substr(written_)), std::memory_order_relaxed);
    written_ = writing_.size();
    // Counted is enough: a line about it would be lost too, and call for another.
    told_ = dropped.load(std::memory_order_relaxed);
  }

  std::atomic<uint64_t> dropped{0};

 private:
  const int own_;
  std::mutex mutex_;
  std::string waiting_;  // Guarded.
  int fd_ = -1;
  std::string writing_;
  size_t written_ = 0;  // Of writing_.
  uint64_t told_ = 0;
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

  // Whether something is left that nobody takes now.
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
