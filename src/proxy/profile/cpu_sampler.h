#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/profile/folded_stacks.h"
#include "proxy/profile/profile_turn.h"
#include "proxy/profile/sample_ring.h"

namespace sluice {

/// Samples what all threads of the process do, by the processor time that each uses: a thread that waits is not
/// interrupted. While it exists, each thread has a timer of the kernel (timer_create with the thread's clock), whose
/// SIGPROF writes a call stack to a ring. Before and after there is nothing, apart from the handler of SIGPROF, which
/// the first sampler installs and which stays, since a last signal may arrive late.
///
/// One profile at a time in a process. For one thread.
class CpuSampler {
 public:
  static constexpr uint64_t kHertz = 199;  ///< Not a divisor of anything that programs do each second.
  static constexpr uint64_t kPeriodUs = 1'000'000 / kHertz;
  /// Threads beyond that are not sampled.
  static constexpr size_t kMaxThreads = 256;

  /// AlreadyExists: another profile is in progress. Other errors name what the kernel refuses.
  static absl::StatusOr<std::unique_ptr<CpuSampler>> start();
  /// Ends the timers, and waits until no handler writes to a ring any more.
  ~CpuSampler();
  CpuSampler(const CpuSampler&) = delete;
  CpuSampler& operator=(const CpuSampler&) = delete;

  /// Takes what the threads have sampled, with the number of periods as weight, and begins to sample threads that are
  /// new. To be called some times per second: the rings are small.
  void collect(FoldedStacks& stacks);
  /// Ends the timers, and takes the rest.
  void finish(FoldedStacks& stacks);

 private:
  struct Thread {
    pid_t id;
    std::string name;
    timer_t timer;
    size_t slot;
    std::unique_ptr<SampleRing> ring;
    uint64_t lost_seen = 0;
    bool is_there = true;
  };
  explicit CpuSampler(ProfileTurn turn) : turn_(std::move(turn)) {}
  absl::Status add_threads();
  absl::Status add_thread(pid_t id);
  void stop(Thread& thread);
  void take(Thread& thread, FoldedStacks& stacks);

  const ProfileTurn turn_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<size_t> free_slots_;
};

}  // namespace sluice
