#include "proxy/access_log/access_log.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/config/model/log.h"
#include "proxy/log/log_file.h"
#include "proxy/log/run_log.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

// How long lines are collected before they are written together.
constexpr std::chrono::milliseconds kGather{50};
// How much of one worker waits before it is written sooner. The rest of the queue is for what arrives until the writing
// thread runs: with one processor for all, that takes several milliseconds.
constexpr uint64_t kWriteAt = LineQueue::kBytes / 8;
// The delay between attempts while writes fail.
constexpr std::chrono::milliseconds kRetry{500};
constexpr std::chrono::seconds kSilence{10};
constexpr std::chrono::seconds kExitPatience{1};
constexpr std::chrono::milliseconds kExitLook{10};

absl::StatusOr<std::unique_ptr<LogFile>> open_file(const std::string& target) {
  if (!config::names_syslog(target)) return LogFile::open(target);
  const absl::StatusOr<config::LogTarget> syslog = config::LogTarget::parse(target);
  if (!syslog.ok()) return syslog.status();
  return LogFile::open_syslog(target, syslog->destination());
}

}  // namespace

void AccessLogWriter::ring_bell() const { eventfd_write(bell_, 1); }

struct AccessLogs::Log {
  uint64_t dropped() const {
    uint64_t sum = 0;
    for (const auto& writer : writers) sum += writer->dropped.value();
    return sum;
  }
  bool empty() const {
    return std::all_of(writers.begin(), writers.end(), [](const auto& writer) { return writer->queue_.empty(); });
  }

  // Writes as much as possible. Returns whether anything was written.
  bool write(Clock::time_point now) {
    file->take_reopened();
    if (state == LogFile::Result::kFailed && now < retry_at) return false;
    const uint64_t before = file->bytes();
    state = write_queues();
    retry_at = now + kRetry;
    report(now);
    return file->bytes() != before;
  }

  LogFile::Result write_queues() {
    for (size_t i = 0; i < writers.size(); ++i) {
      AccessLogWriter& writer = *writers[next];
      const LogFile::Result result = file->write(writer.queue_, writer.written, writer.dropped);
      if (!file->within_line()) next = (next + 1) % writers.size();
      if (result != LogFile::Result::kDone) return result;
    }
    return LogFile::Result::kDone;
  }

  void report(Clock::time_point now) {
    const uint64_t lost = dropped();
    const bool fails = state == LogFile::Result::kFailed;
    if (reported_failure && state == LogFile::Result::kDone) {
      reported_failure = false;
      warn(absl::StrCat("can be written again; lines dropped so far: ", lost));
    } else if (now < silent_until || (lost == reported_lost && (!fails || reported_failure))) {
      return;
    } else if (fails) {
      reported_failure = true;
      warn(absl::StrCat(std::generic_category().message(file->error()), "; retrying; lines dropped so far: ", lost));
    } else {
      warn(absl::StrCat("accepts lines more slowly than they arrive; dropped so far: ", lost));
    }
    reported_lost = lost;
    silent_until = now + kSilence;
  }
  // Drops the lines that are left, when nobody writes any more.
  void drop_rest(std::string_view when) {
    uint64_t lost = 0;
    for (auto& writer : writers) {
      const size_t lines = LogFile::discard(writer->queue_);
      writer->dropped.add(lines);
      lost += lines;
    }
    if (lost == 0) return;
    const bool failed = state == LogFile::Result::kFailed;
    warn(absl::StrCat(failed ? std::generic_category().message(file->error()) : "its reader accepts no lines",
                      "; lost ", when, ": ", lost, ", dropped in total: ", dropped()));
  }
  void warn(const std::string& text) const {
    log_line(LogLevel::kWarning, absl::StrCat("access log \"", file->target(), "\": ", text));
  }

  std::unique_ptr<LogFile> file;
  std::vector<std::unique_ptr<AccessLogWriter>> writers;
  // Used only by the writing thread.
  size_t next = 0;  // The index of the next writer to serve.
  LogFile::Result state = LogFile::Result::kDone;
  Clock::time_point retry_at;
  bool reported_failure = false;  // A failure is reported, but not yet its end.
  uint64_t reported_lost = 0;
  Clock::time_point silent_until;
  Clock::time_point close_at = Clock::time_point::max();  // Of one that is being closed, whatever is left.
};

// Writes all logs. While lines arrive it writes every kGather, and sooner when kWriteAt is reached. After an idle
// period it gives the memory of the queues back, and sleeps until a writer rings the bell.
class AccessLogs::Thread {
 public:
  explicit Thread(AccessLogs& all) : all_(all), bell_(all.bell_), thread_([this] { run(); }) {}
  ~Thread() {
    stopping_.store(true, std::memory_order_release);
    eventfd_write(bell_, 1);
    thread_.join();
  }

 private:
  void run();
  void follow_logs();
  void end_closing(Clock::time_point now);
  bool write(Clock::time_point now);
  void finish();
  bool wait(Clock::time_point until);
  void call_at(uint64_t fill);
  void trim();

  AccessLogs& all_;
  const int bell_;
  std::vector<Log*> logs_;                     // All that it writes.
  std::vector<std::unique_ptr<Log>> closing_;  // Of these, those that are being closed.
  std::atomic<bool> stopping_{false};
  std::vector<pollfd> polls_;
  std::thread thread_;
};

void AccessLogs::Thread::run() {
  pthread_setname_np(pthread_self(), "access log");
  // Signals are for other threads. SIGPIPE and SIGXFSZ are handled as write errors.
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGPROF);  // Of a profile: each thread has its own.
  pthread_sigmask(SIG_BLOCK, &all, nullptr);

  // Consecutive checks without a line. After the first one, any new line rings the bell; one more check follows before
  // the sleep.
  int idle_looks = 0;
  Clock::time_point look_at = Clock::now() + kGather;
  while (!stopping_.load(std::memory_order_acquire)) {
    follow_logs();
    call_at(idle_looks == 0 ? kWriteAt : 1);
    const bool called = wait(idle_looks < 2 ? look_at : Clock::time_point::max());
    const Clock::time_point now = Clock::now();
    const bool first_line = called && idle_looks > 0;  // More lines probably follow.
    const bool some = !first_line && write(now);
    if (called || some) {
      idle_looks = 0;
    } else if (now >= look_at) {
      idle_looks = std::min(idle_looks + 1, 2);
      if (idle_looks == 2) trim();
    } else {
      continue;
    }
    look_at = now + kGather;
    end_closing(now);
  }
  finish();
}

void AccessLogs::Thread::follow_logs() {
  const std::lock_guard lock(all_.mutex_);
  if (!std::exchange(all_.changed_, false)) return;
  for (auto& log : all_.closing_) {
    log->close_at = Clock::now() + kExitPatience;
    log->retry_at = Clock::now();
    closing_.push_back(std::move(log));
  }
  all_.closing_.clear();
  logs_.clear();
  for (auto* const logs : {&all_.logs_, &closing_}) {
    for (auto& log : *logs) {
      if (log) logs_.push_back(log.get());
    }
  }
}

// A log is closed when its lines are written, or cannot be.
void AccessLogs::Thread::end_closing(Clock::time_point now) {
  std::erase_if(closing_, [&](const std::unique_ptr<Log>& log) {
    const bool failed = log->state == LogFile::Result::kFailed && now < log->retry_at;
    if (!log->empty() && !failed && now < log->close_at) return false;
    log->drop_rest("when it was closed");
    std::erase(logs_, log.get());
    return true;
  });
}

bool AccessLogs::Thread::write(Clock::time_point now) {
  bool some = false;
  for (auto& log : logs_) some = log->write(now) || some;
  return some;
}

void AccessLogs::Thread::finish() {
  follow_logs();
  const Clock::time_point deadline = Clock::now() + kExitPatience;
  for (auto& log : logs_) log->retry_at = Clock::now();
  for (;;) {
    const Clock::time_point now = Clock::now();
    write(now);
    const bool done = std::all_of(logs_.begin(), logs_.end(), [](const auto& log) {
      return log->state == LogFile::Result::kFailed || log->empty();
    });
    if (done || now >= deadline) break;
    wait(now + kExitLook);
  }
  end_closing(Clock::time_point::max());
}

// Waits until `until`, until the bell rings, or until a log can be retried or is writable. Returns whether the bell
// rang.
bool AccessLogs::Thread::wait(Clock::time_point until) {
  polls_.assign(1, {bell_, POLLIN, 0});
  for (const auto& log : logs_) {
    until = std::min(until, log->close_at);
    if (log->state == LogFile::Result::kDone) continue;
    until = std::min(until, log->retry_at);
    if (log->state == LogFile::Result::kBlocked) polls_.push_back({log->file->fd(), POLLOUT, 0});
  }
  int64_t ms = -1;
  if (until != Clock::time_point::max()) {
    ms = std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count());
  }
  poll(polls_.data(), polls_.size(), static_cast<int>(ms));
  eventfd_t calls;
  return (polls_[0].revents & POLLIN) != 0 && eventfd_read(bell_, &calls) == 0;
}

void AccessLogs::Thread::call_at(uint64_t fill) {
  for (const auto& log : logs_) {
    for (const auto& writer : log->writers) {
      // A log that does not accept lines is not written sooner because of a wakeup.
      writer->queue_.call_at(log->state == LogFile::Result::kDone ? fill : LineQueue::kNever);
    }
  }
}

void AccessLogs::Thread::trim() {
  for (const auto& log : logs_) {
    for (const auto& writer : log->writers) writer->queue_.trim();
  }
}

AccessLogs::AccessLogs(size_t workers) : workers_(workers) {}

AccessLogs::~AccessLogs() {
  close();
  if (bell_ >= 0) ::close(bell_);
}

absl::StatusOr<std::unique_ptr<AccessLogs>> AccessLogs::open(const std::vector<std::string>& targets, size_t workers) {
  std::unique_ptr<AccessLogs> all(new AccessLogs(workers));
  if (const auto added = all->add(targets); !added.ok()) return added.status();
  return all;
}

absl::StatusOr<std::vector<size_t>> AccessLogs::add(const std::vector<std::string>& targets) {
  std::vector<size_t> indices;
  if (targets.empty()) return indices;
  if (bell_ < 0) bell_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell_ < 0) return absl::ErrnoToStatus(errno, "cannot write access logs: cannot make an eventfd");
  std::vector<std::unique_ptr<Log>> opened;
  std::vector<size_t> places;  // Of `opened`.
  size_t next_place = 0;
  for (const std::string& target : targets) {
    const auto is_same = [&](const auto& log) { return log && log->file->target() == target; };
    const auto known = std::find_if(logs_.begin(), logs_.end(), is_same);
    const auto same = std::find_if(opened.begin(), opened.end(), is_same);
    if (known != logs_.end()) {
      indices.push_back(static_cast<size_t>(known - logs_.begin()));
      continue;
    }
    if (same != opened.end()) {
      indices.push_back(places[static_cast<size_t>(same - opened.begin())]);
      continue;
    }
    auto file = open_file(target);
    if (!file.ok()) return file.status();
    opened.push_back(std::make_unique<Log>());
    opened.back()->file = std::move(*file);
    while (next_place < logs_.size() && logs_[next_place]) ++next_place;
    places.push_back(next_place++);
    indices.push_back(places.back());
    for (size_t i = 0; i < workers_; ++i) opened.back()->writers.push_back(std::make_unique<AccessLogWriter>(bell_));
  }
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < opened.size(); ++i) {
      if (places[i] >= logs_.size()) logs_.resize(places[i] + 1);
      logs_[places[i]] = std::move(opened[i]);
    }
    changed_ = true;
  }
  if (!thread_) thread_ = std::make_unique<Thread>(*this);
  eventfd_write(bell_, 1);  // The thread notices the new logs.
  return indices;
}

void AccessLogs::keep_only(const std::vector<size_t>& used) {
  bool closes = false;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < logs_.size(); ++i) {
      if (!logs_[i] || std::find(used.begin(), used.end(), i) != used.end()) continue;
      closing_.push_back(std::move(logs_[i]));
      changed_ = closes = true;
    }
  }
  if (closes) eventfd_write(bell_, 1);
}

AccessLogWriter& AccessLogs::writer(size_t target, size_t worker) {
  const Log* const log = find(target);
  SLUICE_CHECK(log && worker < log->writers.size());
  return *log->writers[worker];
}

uint64_t AccessLogs::written(size_t target) const {
  const std::lock_guard lock(mutex_);
  const Log* const log = find(target);
  uint64_t sum = 0;
  for (size_t i = 0; log && i < log->writers.size(); ++i) sum += log->writers[i]->written.value();
  return sum;
}

uint64_t AccessLogs::dropped(size_t target) const {
  const std::lock_guard lock(mutex_);
  const Log* const log = find(target);
  return log ? log->dropped() : 0;
}

uint64_t AccessLogs::errors(size_t target) const {
  const std::lock_guard lock(mutex_);
  const Log* const log = find(target);
  return log ? log->file->errors().value() : 0;
}

absl::Status AccessLogs::reopen() {
  if (!thread_) return absl::OkStatus();
  absl::Status result;
  for (auto& log : logs_) {
    if (!log) continue;
    const absl::Status status = log->file->reopen();
    if (status.ok()) continue;
    result = result.ok() ? status : absl::Status(result.code(), absl::StrCat(result.message(), "\n", status.message()));
  }
  eventfd_write(bell_, 1);
  return result;
}

void AccessLogs::close() {
  if (!thread_) return;
  thread_.reset();
  for (auto& log : logs_) {
    if (log) log->drop_rest("at exit");
  }
}

}  // namespace sluice
