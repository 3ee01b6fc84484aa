#include "proxy/profile/thread_list.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {

absl::StatusOr<std::vector<pid_t>> list_threads() {
  DIR* const folder = opendir("/proc/self/task");
  if (!folder) return absl::ErrnoToStatus(errno, "/proc/self/task");
  const absl::Cleanup close_it = [folder] { closedir(folder); };
  std::vector<pid_t> threads;
  while (const dirent* const entry = readdir(folder)) {
    const auto id = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (id > 0) threads.push_back(id);
  }
  return threads;
}

std::string name_of_thread(pid_t id) {
  if (id == getpid()) return "control";
  std::ifstream file(absl::StrCat("/proc/self/task/", id, "/comm"));
  std::string name;
  std::getline(file, name);
  std::replace(name.begin(), name.end(), ';', ':');
  return name;
}

}  // namespace sluice
