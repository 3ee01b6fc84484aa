#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace sluice {

/// Folders, with all that is in them, or single files.
struct AllowedFiles {
  std::vector<std::string> read;
  std::vector<std::string> write;  ///< Where files and Unix sockets are also made and removed. Includes reading.
};

/// Whether this kernel has Landlock (Linux 5.13). The error is for the user.
absl::Status has_landlock();

/// From now on and for good, the calling thread, the threads that it starts, and their programs can open no other files
/// than these, and execute none (landlock(7)). Files that are open stay usable. From Linux 6.12 on they cannot send
/// signals to other processes either. Names that do not exist are left out. Requires no_new_privs. The error is for the
/// user; nothing has changed then.
absl::Status restrict_files(const AllowedFiles& allowed);

}  // namespace sluice
