#pragma once

#include <string>

namespace sluice {

/// How many workers `workers: auto` means: the processors this process may run on (its affinity mask), but no more than
/// its cgroup's CPU quota pays for, rounded up; at least 1.
unsigned usable_cpus();

/// The quota in processors (rounded up) of the cgroup hierarchy mounted at `root`, or 0 when there is none. Understands
/// cpu.max (v2) and cpu.cfs_quota_us (v1) of the group that `membership` (the text of /proc/self/cgroup) names and of
/// the groups above it. Exposed for tests.
unsigned cgroup_cpu_quota(const std::string& root, const std::string& membership);

}  // namespace sluice
