#include "proxy/log/run_log.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/log/log_descriptor.h"

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kExitPatience{1};
constexpr std::chrono::milliseconds kExitLook{10};
// How often a blocked output is tried even if it does not become writable: its receiver may be another one.
constexpr std::chrono::seconds kBlockedLook{1};
// Lines are written in so many batches before standard output is looked at, however fast more arrive.
constexpr int kBatches = 4;
// A larger buffer is freed after use.
constexpr size_t kKeptBytes = size_t{16} * 1024;

int64_t wall_clock_ms() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

uint64_t lines_in(std::string_view text) { return static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n')); }

std::atomic<uint64_t> suppressed{0};

}  // namespace

// The counters for standard output.
class RunLog::Prints {
 public:
  enum class Result { kDone, kBlocked };

  explicit Prints(int own) : own_(own) {}
  ~Prints() { stop(); }

  void start() {
    fd_ = open_own(own_);
    const std::lock_guard lock(mutex_);
    running_ = true;
  }
  // No other thread writes any more.
  void stop() {
    const std::lock_guard lock(mutex_);
    running_ = false;
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int fd() const { return fd_; }

  // May be called on any thread. Returns whether the writing thread must be woken.
  bool put(std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (!running_) {
      if (write_without_waiting(own_, text) < 0) count_dropped(text);
      return false;
    }
    if (!waiting_.empty() && waiting_.size() + text.size() > kQueueBytes) {
      count_dropped(text);
      return false;
    }
    const bool first = waiting_.empty();
    waiting_ += text;
    return first;
  }

  // For the writing thread.

  // Takes the queued text if all earlier text was written. Returns whether there is text to write.
  bool fill() {
    if (written_ < writing_.size()) return true;
    writing_.clear();
    if (writing_.capacity() > kKeptBytes) writing_.shrink_to_fit();
    written_ = 0;
    const std::lock_guard lock(mutex_);
    std::swap(writing_, waiting_);
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
    count_dropped(std::string_view(writing_).substr(written_));
    written_ = writing_.size();
  }

  std::atomic<uint64_t> dropped{0};

 private:
  void count_dropped(std::string_view text) { dropped.fetch_add(lines_in(text), std::memory_order_relaxed); }

  const int own_;
  std::mutex mutex_;
  bool running_ = false;  // Guarded by mutex_, as is waiting_.
  std::string waiting_;
  int fd_ = -1;
  std::string writing_;
  size_t written_ = 0;  // Bytes of writing_ that are written.
};

// The events for the log. They are formatted when they are written, because the format may change before.
class RunLog::Lines {
 public:
  enum class Outcome { kIdle, kBlocked, kMore };

  explicit Lines(int own) : own_(own), sink_(std::make_shared<LogSink>(own)) {}

  void start() {
    const std::lock_guard lock(mutex_);
    sink_->open_own();
    running_ = true;
  }

  // No other thread writes any more. What was put since it ended is written now.
  void stop() {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(running_, false)) return;
    take_change();
    batch_.insert(batch_.end(), std::make_move_iterator(waiting_.begin()), std::make_move_iterator(waiting_.end()));
    clear_waiting();
    while (next_line()) {
      if (write_line() == LogSink::Result::kBlocked) drop_line();
    }
    sink_->close_own();
  }

  // May be called on any thread. Returns whether the writing thread must be woken.
  bool put(LogRecord record) {
    const std::lock_guard lock(mutex_);
    if (running_ && !waiting_.empty() && waiting_bytes_ + record.bytes() > kQueueBytes) {
      dropped.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    if (running_) {
      waiting_bytes_ += record.bytes();
      waiting_.push_back(std::move(record));
      return waiting_.size() == 1;
    }
    batch_.push_back(std::move(record));
    while (next_line()) {
      if (write_line() == LogSink::Result::kBlocked) drop_line();
    }
    return false;
  }

  // May be called on any thread.
  void change(LogStyle style, std::unique_ptr<LogSink> sink) {
    const std::lock_guard lock(mutex_);
    change_.style = style;
    if (sink) change_.sink = std::move(sink);
    change_.after = waiting_.size();
    change_.is_set = true;
    change_waits_.store(true, std::memory_order_release);
    if (!running_) take_change();
  }

  // May be called on any thread.
  absl::Status reopen() {
    std::shared_ptr<LogSink> sink;
    {
      const std::lock_guard lock(mutex_);
      sink = change_.sink ? change_.sink : sink_;
    }
    return sink->reopen();
  }

  // For the writing thread.

  // Writes what waits at the time of the call, or a little more.
  Outcome write() {
    for (int batches = 0;;) {
      if (line_.empty() && batch_.empty()) {
        if (++batches > kBatches) return Outcome::kMore;
        take_batch();
      }
      sink_->take_reopened(written_);
      if (!next_line()) return Outcome::kIdle;
      if (write_line() != LogSink::Result::kBlocked) continue;
      if (!change_waits_.load(std::memory_order_acquire)) return Outcome::kBlocked;
      // Nobody waits for a blocked sink that is to be replaced. Its line begins again in the next one.
      const std::lock_guard lock(mutex_);
      batch_.insert(batch_.end(), std::make_move_iterator(waiting_.begin()), std::make_move_iterator(waiting_.end()));
      clear_waiting();
      take_change();
    }
  }

  // Drops what waits.
  void discard() {
    while (!line_.empty() || !batch_.empty() || take_batch()) {
      if (!line_.empty()) drop_line();
      dropped.fetch_add(batch_.size(), std::memory_order_relaxed);
      batch_.clear();
    }
  }

  int fd() const { return sink_->fd(); }

  std::atomic<uint64_t> dropped{0};
  std::atomic<uint64_t> errors{0};

 private:
  struct Change {
    bool is_set = false;
    size_t after = 0;  // The number of waiting records that still go to the earlier sink.
    LogStyle style = LogStyle::kText;
    std::shared_ptr<LogSink> sink;  // Null: no other one.
  };

  void clear_waiting() {
    waiting_.clear();
    waiting_bytes_ = 0;
  }

  // With mutex_ held. The line that is being written is formatted again.
  void take_change() {
    if (!std::exchange(change_.is_set, false)) return;
    change_waits_.store(false, std::memory_order_relaxed);
    style_ = change_.style;
    change_.after = 0;
    if (!change_.sink) return;
    // What the earlier sink lost is reported by the new one.
    if (losing_.empty() && dropped.load(std::memory_order_relaxed) != reported_) losing_ = sink_->name();
    sink_ = std::exchange(change_.sink, nullptr);
    failing_ = false;
    if (line_.empty()) return;
    written_ = 0;
    if (is_report_) {
      line_.clear();
    } else {
      line_ = format_log_line(*current_, style_, sink_->framing());
    }
  }

  // Takes the waiting records: up to the next change, which is made when these are written.
  bool take_batch() {
    const std::lock_guard lock(mutex_);
    if (change_.is_set && change_.after == 0) take_change();
    const size_t count = change_.is_set ? change_.after : waiting_.size();
    if (count == waiting_.size()) {
      std::swap(batch_, waiting_);
      clear_waiting();
    } else {
      for (size_t i = 0; i < count; ++i) {
        waiting_bytes_ -= waiting_.front().bytes();
        batch_.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
      }
    }
    change_.after = 0;
    return !batch_.empty();
  }

  // Sets line_ to the next line to write. Returns false if there is none.
  bool next_line() {
    if (!line_.empty()) return true;
    if (!current_) {
      if (batch_.empty()) return false;
      current_ = std::move(batch_.front());
      batch_.pop_front();
      has_reported_ = false;
    }
    written_ = 0;
    const uint64_t lost = dropped.load(std::memory_order_relaxed);
    is_report_ = lost != reported_ && !std::exchange(has_reported_, true);
    if (is_report_) {
      reporting_ = lost;
      const LogRecord report(wall_clock_ms(), LogLevel::kWarning, report_text(lost), {});
      line_ = format_log_line(report, style_, sink_->framing());
    } else {
      line_ = format_log_line(*current_, style_, sink_->framing());
    }
    return true;
  }

  std::string report_text(uint64_t lost) const {
    const std::string_view name = losing_.empty() ? sink_->name() : losing_;
    if (last_error_ == 0) {
      return absl::StrCat(name, " accepts lines more slowly than they arrive; dropped: ", lost - reported_,
                          ", in total: ", lost);
    }
    return absl::StrCat(name, " could not be written to (", std::generic_category().message(last_error_),
                        "); dropped: ", lost - reported_, ", in total: ", lost);
  }

  LogSink::Result write_line() {
    const LogSink::Result result = sink_->write(line_, written_);
    if (result == LogSink::Result::kDone) {
      failing_ = false;
      if (is_report_) {
        reported_ = reporting_;
        last_error_ = 0;
        losing_.clear();
      }
      end_line();
    } else if (result == LogSink::Result::kFailed) {
      last_error_ = sink_->error();
      if (!is_report_) errors.fetch_add(1, std::memory_order_relaxed);
      if (!std::exchange(failing_, true)) tell_stderr();
      drop_line();
    }
    return result;
  }

  void end_line() {
    line_.clear();
    written_ = 0;
    if (!is_report_) current_.reset();
  }

  // A report that was not written stays due.
  void drop_line() {
    if (!is_report_) dropped.fetch_add(1, std::memory_order_relaxed);
    end_line();
  }

  // Says once on standard error that the log cannot be written, as the log cannot say it.
  void tell_stderr() {
    if (sink_->is_stderr()) return;
    const LogRecord record(
        wall_clock_ms(), LogLevel::kError,
        absl::StrCat("log: ", sink_->name(), " cannot be written to: ", std::generic_category().message(last_error_),
                     "; its lines are dropped until that works again"),
        {});
    write_without_waiting(own_, format_log_line(record, LogStyle::kText, LogFraming::kPlain));
  }

  const int own_;  // Standard error.
  std::mutex mutex_;
  // Guarded by mutex_.
  bool running_ = false;
  std::deque<LogRecord> waiting_;
  size_t waiting_bytes_ = 0;
  Change change_;
  std::atomic<bool> change_waits_{false};  // Whether change_ is set.
  // Of the writing thread, or guarded by mutex_ while there is none. sink_ is changed with mutex_ held.
  std::shared_ptr<LogSink> sink_;
  LogStyle style_ = LogStyle::kText;
  std::deque<LogRecord> batch_;
  std::optional<LogRecord> current_;  // The next record of the log.
  std::string line_;                  // What is being written: current_, or a report in front of it.
  size_t written_ = 0;                // Bytes of line_ that are written.
  bool is_report_ = false;
  bool has_reported_ = false;              // A report was tried in front of current_.
  uint64_t reporting_ = 0, reported_ = 0;  // Of `dropped`.
  bool failing_ = false;
  int last_error_ = 0;  // Of the sink, since the last report.
  std::string losing_;  // The earlier sink's name, if it lost lines that are not reported yet.
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
    pthread_setname_np(pthread_self(), "log");
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGPROF);  // Of a profile: each thread has its own.
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    Clock::time_point deadline = Clock::time_point::max();
    for (;;) {
      const bool stopping = stopping_.load(std::memory_order_acquire);
      if (stopping && deadline == Clock::time_point::max()) deadline = Clock::now() + kExitPatience;
      const bool is_left = write();
      if (stopping && (!is_left || Clock::now() >= deadline)) break;
      wait(stopping);
    }
    log_.log_->discard();
    if (log_.prints_->fill()) log_.prints_->discard();
  }

  // Returns whether some output is left.
  bool write() {
    polls_.assign(1, {bell_, POLLIN, 0});
    const Lines::Outcome outcome = log_.log_->write();
    if (outcome == Lines::Outcome::kBlocked) polls_.push_back({log_.log_->fd(), POLLOUT, 0});
    if (outcome == Lines::Outcome::kMore) log_.ring();  // After a look at standard output.
    while (log_.prints_->fill()) {
      if (log_.prints_->write() == Prints::Result::kDone) continue;
      polls_.push_back({log_.prints_->fd(), POLLOUT, 0});
      break;
    }
    return polls_.size() > 1 || outcome == Lines::Outcome::kMore;
  }

  void wait(bool stopping) {
    const int blocked_ms = static_cast<int>(std::chrono::milliseconds(kBlockedLook).count());
    poll(polls_.data(), polls_.size(),
         stopping            ? static_cast<int>(kExitLook.count())
         : polls_.size() > 1 ? blocked_ms
                             : -1);
    eventfd_t calls;
    if ((polls_[0].revents & POLLIN) != 0) eventfd_read(bell_, &calls);
  }

  RunLog& log_;
  const int bell_;
  std::atomic<bool> stopping_{false};
  std::vector<pollfd> polls_;
  std::thread thread_;
};

RunLog::RunLog(int out, int err) : prints_(std::make_unique<Prints>(out)), log_(std::make_unique<Lines>(err)) {}

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
  prints_->start();
  log_->start();
  thread_ = std::make_unique<Thread>(*this, bell_);
}

void RunLog::stop() {
  if (!thread_) return;
  thread_.reset();
  prints_->stop();
  log_->stop();
}

void RunLog::ring() { eventfd_write(bell_, 1); }

void RunLog::configure(LogLevel level, LogStyle style, std::unique_ptr<LogSink> sink) {
  level_.store(level, std::memory_order_relaxed);
  log_->change(style, std::move(sink));
  if (bell_ >= 0) ring();
}

absl::Status RunLog::reopen() {
  absl::Status reopened = log_->reopen();
  if (bell_ >= 0) ring();
  return reopened;
}

void RunLog::line(LogLevel level, std::string_view text, const LogFields& fields) {
  if (!enabled(level)) return;
  lines_[static_cast<size_t>(level)].fetch_add(1, std::memory_order_relaxed);
  LogRecord record(wall_clock_ms(), level, text, fields);
  recent_.add(record);
  if (log_->put(std::move(record))) ring();
}

void RunLog::print(std::string_view text) {
  if (prints_->put(text)) ring();
}

uint64_t RunLog::lines_dropped() const { return log_->dropped.load(std::memory_order_relaxed); }
uint64_t RunLog::prints_dropped() const { return prints_->dropped.load(std::memory_order_relaxed); }
uint64_t RunLog::write_errors() const { return log_->errors.load(std::memory_order_relaxed); }

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

std::string left_out_text(LogLimit& limit) {
  const uint64_t left_out = limit.take_left_out();
  return left_out == 0 ? "" : absl::StrCat(" (lines of this kind left out before this one: ", left_out, ")");
}

uint64_t log_lines_suppressed() { return suppressed.load(std::memory_order_relaxed); }

}  // namespace sluice
