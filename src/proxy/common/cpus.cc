#include "proxy/common/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {

namespace {

unsigned rounded_up(double quota, double period) {
  if (quota <= 0 || period <= 0) return 0;
  return std::max(1u, static_cast<unsigned>((quota + period - 1) / period));
}

// "MAX PERIOD" or "max PERIOD", in microseconds.
unsigned quota_v2(const std::string& directory) {
  std::ifstream file(directory + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max") return 0;
  return rounded_up(std::atof(quota.c_str()), period);
}

unsigned quota_v1(const std::string& directory) {
  double quota = 0, period = 0;
  std::ifstream(directory + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(directory + "/cpu.cfs_period_us") >> period;
  return rounded_up(quota, period);
}

// The least quota on the way from `group` up to the hierarchy's root.
template <typename Quota>
unsigned least_quota(const std::string& mount, std::string group, Quota quota_of) {
  unsigned least = 0;
  for (;;) {
    const unsigned quota = quota_of(absl::StrCat(mount, group));
    if (quota != 0 && (least == 0 || quota < least)) least = quota;
    if (group.empty()) return least;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

unsigned cgroup_cpu_quota(const std::string& root, const std::string& membership) {
  unsigned least = 0;
  std::istringstream lines(membership);
  // HIERARCHY:CONTROLLERS:PATH; v2 is hierarchy 0 without controllers.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = absl::StrCat(",", line.substr(first + 1, second - first - 1), ",");
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    unsigned quota = 0;
    if (controllers == ",,") {
      quota = least_quota(root, group, quota_v2);
    } else if (controllers.find(",cpu,") != std::string::npos) {
      quota = least_quota(root + "/cpu", group, quota_v1);
    }
    if (quota != 0 && (least == 0 || quota < least)) least = quota;
  }
  return least;
}

unsigned usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  unsigned cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 1;
  std::ostringstream membership;
  membership << std::ifstream("/proc/self/cgroup").rdbuf();
  const unsigned quota = cgroup_cpu_quota("/sys/fs/cgroup", membership.str());
  if (quota != 0) cpus = std::min(cpus, quota);
  return std::max(cpus, 1u);
}

}  // namespace sluice
