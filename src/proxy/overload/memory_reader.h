#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/overload/memory_level.h"

namespace sluice {

/// Reads how much memory the process and its cgroups have in use.
///
/// The files stay open, so that the process can go on reading them as another user, or in another root directory.
class MemoryReader {
 public:
  /// Where the files are; tests have others.
  struct Places {
    std::string proc = "/proc";
    std::string cgroups = "/sys/fs/cgroup";
  };
  MemoryReader();
  explicit MemoryReader(const Places& places);
  ~MemoryReader();
  MemoryReader(const MemoryReader&) = delete;
  MemoryReader& operator=(const MemoryReader&) = delete;

  /// What is closest to its limit: with `limit`, the resident memory under that limit. Without it (0), what a cgroup on
  /// the way up from that of the process counts, under its limit, file caches apart: the kernel drops these first. If
  /// none has a limit, the resident memory under the machine's.
  MemoryUse read(uint64_t limit) const;
  /// What the limit of read() is, for the log.
  std::string_view limit_name(uint64_t limit) const;

 private:
  struct Group;

  void find_groups(const Places& places);
  void add_groups(const std::string& mount, std::string path, bool v2);

  int statm_ = -1;
  uint64_t machine_bytes_ = 0;
  std::vector<std::unique_ptr<Group>> groups_;  // Those that had a limit at the start.
};

}  // namespace sluice
