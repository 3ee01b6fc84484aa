// Whether this process may use io_uring, and what to do if not.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace sluice {

/// What restricts system calls of this process, apart from the kernel's version.
struct IoUringRestrictions {
  std::string disabled;     ///< The sysctl kernel.io_uring_disabled; empty if the kernel does not have it.
  bool has_filter = false;  ///< A seccomp filter applies, as in containers.

  static IoUringRestrictions of_this_process();
};

/// The error, for the user, of a system call of io_uring that failed with an errno.
absl::Status io_uring_error(const char* call, int error, const IoUringRestrictions& restrictions);

/// Returns an error, for the user, if one of the three system calls of io_uring is forbidden. A filter may allow one
/// and forbid another.
absl::Status check_io_uring_access();

}  // namespace sluice
