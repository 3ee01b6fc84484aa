#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

/// Notices changes of the files of a configuration (inotify). It watches their folders, so it also notices files that
/// are replaced by renaming another, as editors, certbot and Kubernetes do. For the control thread.
class FileWatch {
 public:
  static absl::StatusOr<std::unique_ptr<FileWatch>> open();
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  /// Watches these files from now on, and no others. Each is a path, or a pattern for files that may be added. Returns
  /// false if some folder cannot be watched.
  bool watch(const std::vector<std::string>& patterns);
  /// Readable if something in a watched folder has changed.
  int fd() const { return fd_; }
  /// Takes what has changed. Returns whether any of it is a watched file.
  bool take();

 private:
  struct Folder {
    int watch;
    std::string path;
    std::vector<std::string> names;  // Patterns without slashes.
  };
  explicit FileWatch(int fd) : fd_(fd) {}

  const int fd_;
  std::vector<Folder> folders_;
};

}  // namespace sluice
