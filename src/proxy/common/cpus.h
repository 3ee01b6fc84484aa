#pragma once

#include <string>

namespace sluice {

/// The number of workers that `workers: auto` means: the processors that this process may run on (its affinity mask),
/// limited by its cgroup's CPU quota rounded up. At least 1.
unsigned usable_cpus();

/// Returns the quota, in processors rounded up, of the cgroup hierarchy mounted at `root`, or 0 if there is none. Reads
/// cpu.max (v2) and cpu.cfs_quota_us (v1) of the group that `membership` (the text of /proc/self/cgroup) names and of
/// the groups above it. Exposed for tests.
unsigned cgroup_cpu_quota(const std::string& root, const std::string& membership);

}  // namespace sluice
