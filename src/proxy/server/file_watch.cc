#include "proxy/server/file_watch.h"

#include <fnmatch.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace sluice {

namespace {

constexpr uint32_t kChanges = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_ATTRIB;
// Kubernetes changes all files of a mounted ConfigMap or Secret at once, by renaming this symbolic link.
constexpr const char* kMountedData = "..data";

}  // namespace

absl::StatusOr<std::unique_ptr<FileWatch>> FileWatch::open() {
  const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot watch files (inotify)");
  return std::unique_ptr<FileWatch>(new FileWatch(fd));
}

FileWatch::~FileWatch() { close(fd_); }

// A folder that stays keeps its watch, so that no change is lost.
bool FileWatch::watch(const std::vector<std::string>& patterns) {
  bool all = true;
  std::vector<Folder> folders;
  for (const std::string& pattern : patterns) {
    const size_t slash = pattern.rfind('/');
    const std::string path = slash == std::string::npos ? "." : pattern.substr(0, std::max<size_t>(slash, 1));
    auto folder = std::find_if(folders.begin(), folders.end(), [&](const Folder& each) { return each.path == path; });
    if (folder == folders.end()) {
      const int watch = inotify_add_watch(fd_, path.c_str(), kChanges);
      if (watch < 0) {
        all = false;
        continue;
      }
      folder = folders.insert(folder, {watch, path, {kMountedData}});
    }
    folder->names.push_back(pattern.substr(slash + 1));
  }
  for (const Folder& old : folders_) {
    const auto stays = [&](const Folder& each) { return each.watch == old.watch; };
    if (std::none_of(folders.begin(), folders.end(), stays)) inotify_rm_watch(fd_, old.watch);
  }
  folders_ = std::move(folders);
  return all;
}

bool FileWatch::take() {
  bool changed = false;
  alignas(inotify_event) std::array<char, 16 * 1024> buffer;
  for (ssize_t got; (got = read(fd_, buffer.data(), buffer.size())) > 0;) {
    for (ssize_t at = 0; at < got;) {
      inotify_event event;
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* const name = event.len > 0 ? buffer.data() + at + sizeof event : "";
      at += static_cast<ssize_t>(sizeof event + event.len);
      if (event.mask & IN_Q_OVERFLOW) changed = true;  // Whatever was lost may have been one of them.
      for (const Folder& folder : folders_) {
        if (folder.watch != event.wd) continue;
        changed |= std::any_of(folder.names.begin(), folder.names.end(), [name](const std::string& pattern) {
          return pattern == name || fnmatch(pattern.c_str(), name, FNM_PERIOD) == 0;
        });
      }
    }
  }
  return changed;
}

}  // namespace sluice
