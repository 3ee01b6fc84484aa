#include "proxy/overload/memory_watch.h"

#include <pthread.h>

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/log/run_log.h"

namespace sluice {

namespace {

// A reading takes some 50 microseconds. It is repeated soon where much may happen until the next one.
constexpr std::chrono::milliseconds kCalm{250};
constexpr std::chrono::milliseconds kSoon{20};
// From so many percent below the first mark on it is soon.
constexpr uint32_t kNear = 30;

uint64_t mib(uint64_t bytes) { return bytes >> 20; }

std::string_view consequence(MemoryLevel level) {
  switch (level) {
    case MemoryLevel::kNormal:
      return "all is served as usual";
    case MemoryLevel::kReduce:
      return "connections end with their responses, idle ones sooner, and less may wait in memory";
    case MemoryLevel::kClose:
      return "the connections that hold most are closed";
    case MemoryLevel::kRefuse:
      return "new connections are refused";
  }
  return "";
}

}  // namespace

MemoryWatch::MemoryWatch(OverloadState& state, std::function<void()> changed)
    : state_(state), changed_(std::move(changed)) {}

MemoryWatch::~MemoryWatch() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void MemoryWatch::configure(const config::Overload& config, uint64_t budget_bytes) {
  state_.set_delay(config.delay);
  const std::lock_guard lock(mutex_);
  if (thread_.joinable() && config.memory == marks_) return;
  marks_ = config.memory;
  limit_.store(marks_.limit ? marks_.limit->bytes : 0, std::memory_order_relaxed);
  if (!marks_.enabled) return;
  const MemoryUse use = reader_.read(limit_.load(std::memory_order_relaxed));
  if (use.limit == 0) {
    log_line(LogLevel::kWarning,
             "overload.memory has no effect: neither /proc/self/statm nor a cgroup's files can be read");
  } else if (budget_bytes > use.limit / 100 * marks_.close) {
    log_line(LogLevel::kWarning,
             absl::StrCat("the buffers of all workers may have ", mib(budget_bytes),
                          " MiB (memory.worker_budget), but ", limit_name(), " is ", mib(use.limit), " MiB: from ",
                          marks_.close, " % of it connections are closed; lower memory.worker_budget or workers"));
  }
}

void MemoryWatch::start() {
  thread_ = std::thread([this] { main(); });
}

void MemoryWatch::main() {
  pthread_setname_np(pthread_self(), "overload");
  std::unique_lock lock(mutex_);
  while (!ends_) {
    const config::OverloadMemory marks = marks_;
    lock.unlock();
    const MemoryUse use = marks.enabled ? reader_.read(marks.limit ? marks.limit->bytes : 0) : MemoryUse();
    const MemoryLevel before = state_.level(), now = next_memory_level(before, use, marks);
    state_.set_memory(now, use, marks);
    if (now != before) log_change(before, now, use);
    if (now != before || now != MemoryLevel::kNormal) changed_();
    lock.lock();
    const bool near = use.share() * 100 + kNear >= marks.reduce && use.limit != 0;
    wake_.wait_for(lock, near ? kSoon : kCalm, [this] { return ends_; });
  }
}

void MemoryWatch::log_change(MemoryLevel before, MemoryLevel now, const MemoryUse& use) const {
  static LogLimit limit;
  const bool rises = now > before;
  const LogLevel level = rises ? LogLevel::kWarning : LogLevel::kInfo;
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  const auto now_ms = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
  if (!log_enabled(level) || !log_admits(limit, now_ms)) return;
  std::string text =
      absl::StrCat("overload: memory is at the level `", memory_level_name(now), "`: ", mib(use.used), " MiB of ",
                   mib(use.limit), " MiB (", limit_name(), ") are in use, so ", consequence(now));
  if (rises) absl::StrAppend(&text, "; raise the limit, or lower memory.worker_budget or limits.max_connections");
  log_line(level, absl::StrCat(text, left_out_text(limit)));
}

}  // namespace sluice
