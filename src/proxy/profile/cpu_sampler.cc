#include "proxy/profile/cpu_sampler.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/profile/stack_walk.h"
#include "proxy/profile/thread_list.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace sluice {

namespace {

// 64 KiB for each thread: about a second of deep stacks.
constexpr size_t kRingWords = 8192;

// What the handler may see of a thread. These are never freed: a signal can arrive after its timer is gone.
struct Slot {
  std::atomic<SampleRing*> ring{nullptr};
  std::atomic<pid_t> thread{0};
  std::atomic<bool> in_use{false};  // The handler is at work.
};
std::array<Slot, CpuSampler::kMaxThreads> slots;

// Async-signal-safe: atomics, gettid(), and reads of the thread's own stack.
void on_sample(int, siginfo_t* info, void* context) {
  if (info->si_code != SI_TIMER) return;
  const auto number = static_cast<size_t>(info->si_value.sival_int);
  if (number >= slots.size()) return;
  const int error = errno;
  Slot& slot = slots[number];
  if (slot.thread.load(std::memory_order_relaxed) == gettid()) {
    // Sequential consistency: either this sees no ring, or stop() sees that it is in use.
    slot.in_use.store(true, std::memory_order_seq_cst);
    if (SampleRing* const ring = slot.ring.load(std::memory_order_seq_cst)) {
      std::array<uintptr_t, SampleRing::kMaxFrames> frames;
      const size_t count = walk_stack(place_of_signal(context), frames);
      // The kernel checks timers at its ticks. Periods that have passed since the last one are overruns.
      const int overruns = std::max(info->si_overrun, 0);
      ring->put(std::span(frames).first(count), 1 + static_cast<uint64_t>(overruns));
    }
    slot.in_use.store(false, std::memory_order_release);
  }
  errno = error;
}

absl::Status install_handler() {
  static bool installed = false;
  if (installed) return absl::OkStatus();
  struct sigaction action{};
  action.sa_sigaction = on_sample;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGPROF, &action, nullptr) != 0) return absl::ErrnoToStatus(errno, "sigaction");
  installed = true;
  return absl::OkStatus();
}

// The clock of the processor time of a thread of this process: pthread_getcpuclockid() needs its pthread_t.
clockid_t clock_of(pid_t thread) {
  constexpr unsigned kThreadClock = 4 | 2;  // CPUCLOCK_PERTHREAD_MASK, CPUCLOCK_SCHED.
  return static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | kThreadClock);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuSampler>> CpuSampler::start() {
  absl::StatusOr<ProfileTurn> turn = ProfileTurn::take();
  if (!turn.ok()) return turn.status();
  std::unique_ptr<CpuSampler> sampler(new CpuSampler(*std::move(turn)));
  if (absl::Status status = install_handler(); !status.ok()) return status;
  find_main_stack();
  for (size_t i = kMaxThreads; i-- > 0;) sampler->free_slots_.push_back(i);
  if (absl::Status status = sampler->add_threads(); !status.ok()) return status;
  return sampler;
}

CpuSampler::~CpuSampler() {
  for (auto& thread : threads_) stop(*thread);
}

// Adds those that it does not have, and finds out which are gone.
absl::Status CpuSampler::add_threads() {
  const absl::StatusOr<std::vector<pid_t>> all = list_threads();
  if (!all.ok()) return all.status();
  for (auto& thread : threads_) thread->is_there = false;
  absl::Status result;
  for (const pid_t id : *all) {
    const auto known =
        std::find_if(threads_.begin(), threads_.end(), [id](const auto& each) { return each->id == id; });
    if (known != threads_.end()) {
      (*known)->is_there = true;
      // A thread gives itself its name some time after it has begun.
      if (std::string name = name_of_thread(id); !name.empty()) (*known)->name = std::move(name);
    } else if (absl::Status status = add_thread(id); !status.ok()) {
      result = std::move(status);
    }
  }
  return result;
}

absl::Status CpuSampler::add_thread(pid_t id) {
  std::string name = name_of_thread(id);
  // Those of io_uring, which never leave the kernel; and threads that have just ended.
  if (absl::StartsWith(name, "iou-") || name.empty() || free_slots_.empty()) return absl::OkStatus();
  const size_t number = free_slots_.back();
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event.sigev_value.sival_int = static_cast<int>(number);
  event.sigev_notify_thread_id = id;
  timer_t timer{};
  if (timer_create(clock_of(id), &event, &timer) != 0) {
    if (errno == EINVAL || errno == ESRCH) return absl::OkStatus();  // The thread has ended.
    const std::string_view hint = errno == EAGAIN ? ": `ulimit -i` of the process, pending signals, is used up" : "";
    return absl::ErrnoToStatus(errno, absl::StrCat("timer_create for thread ", name, hint));
  }
  free_slots_.pop_back();
  auto thread = std::make_unique<Thread>(id, std::move(name), timer, number, std::make_unique<SampleRing>(kRingWords));
  slots[number].thread.store(id, std::memory_order_relaxed);
  slots[number].ring.store(thread->ring.get(), std::memory_order_seq_cst);
  threads_.push_back(std::move(thread));
  itimerspec period{};
  period.it_interval.tv_nsec = static_cast<long>(kPeriodUs) * 1000;
  period.it_value = period.it_interval;
  if (timer_settime(timer, 0, &period, nullptr) != 0 && errno != ESRCH)
    return absl::ErrnoToStatus(errno, "timer_settime");
  return absl::OkStatus();
}

void CpuSampler::stop(Thread& thread) {
  Slot& slot = slots[thread.slot];
  if (slot.ring.load(std::memory_order_relaxed) != thread.ring.get()) return;
  timer_delete(thread.timer);
  slot.ring.store(nullptr, std::memory_order_seq_cst);
  // Some microseconds, or as long as the thread gets no processor in the middle of it.
  const timespec pause{.tv_sec = 0, .tv_nsec = 50'000};
  while (slot.in_use.load(std::memory_order_seq_cst)) nanosleep(&pause, nullptr);
  slot.thread.store(0, std::memory_order_relaxed);
}

void CpuSampler::take(Thread& thread, FoldedStacks& stacks) {
  stacks.add_all(thread.name, *thread.ring);
  const uint64_t lost = thread.ring->lost();
  stacks.add_lost(lost - std::exchange(thread.lost_seen, lost));
}

void CpuSampler::collect(FoldedStacks& stacks) {
  // What cannot be sampled now may be sampled later, and the others are.
  (void)add_threads();
  for (auto& thread : threads_) {
    if (!thread->is_there) {
      stop(*thread);
      free_slots_.push_back(thread->slot);
    }
    take(*thread, stacks);
  }
  std::erase_if(threads_, [](const auto& each) { return !each->is_there; });
}

void CpuSampler::finish(FoldedStacks& stacks) {
  for (auto& thread : threads_) {
    stop(*thread);
    take(*thread, stacks);
  }
}

}  // namespace sluice
