#include "net/thread_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace sluice {

namespace {

// Lower priority than the workers, higher than background work.
constexpr int kNice = 5;
// The least that Linux takes.
constexpr uint64_t kSliceNs = 100'000;

// As sched_setattr(2) has it, in its first version. <linux/sched/types.h> contradicts <sched.h> before Linux 6.0.
struct SchedulerAttributes {
  uint32_t size = sizeof(SchedulerAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = kNice;
  uint32_t priority = 0;
  uint64_t runtime = kSliceNs;  // Since Linux 6.12 the slice of a thread of this policy; ignored before.
  uint64_t deadline = 0;
  uint64_t period = 0;
};
static_assert(sizeof(SchedulerAttributes) == 48);

}  // namespace

void give_way_to_workers() {
  SchedulerAttributes attributes;
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) == 0) return;
  setpriority(PRIO_PROCESS, 0, kNice);  // Applies to this thread only, on Linux.
}

}  // namespace sluice
