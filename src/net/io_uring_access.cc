#include "net/io_uring_access.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sluice {

namespace {

// Docker's default profile is the usual cause.
absl::Status filtered(const char* call) {
  return absl::PermissionDeniedError(absl::StrCat(
      "a seccomp filter forbids ", call,
      ": allow io_uring_setup, io_uring_enter and io_uring_register (Docker: --security-opt seccomp=FILE; Kubernetes: "
      "seccompProfile; systemd: SystemCallFilter=)"));
}

absl::Status forbidden(const char* call, const IoUringRestrictions& restrictions) {
  if (restrictions.disabled != "1" && restrictions.disabled != "2") {
    if (restrictions.has_filter) return filtered(call);
    return absl::PermissionDeniedError(absl::StrCat(
        call, " is forbidden for this process, by a security module such as SELinux: see the kernel's log"));
  }
  const char* const whom = restrictions.disabled == "1"
                               ? "1: only the group kernel.io_uring_group may use io_uring, so "
                                 "join it, or run `sysctl kernel.io_uring_disabled=0`"
                               : "2: nobody may use io_uring, so run `sysctl "
                                 "kernel.io_uring_disabled=0`";
  return absl::PermissionDeniedError(
      absl::StrCat("kernel.io_uring_disabled is ", whom,
                   restrictions.has_filter ? "; a seccomp filter applies too, and may forbid " : "",
                   restrictions.has_filter ? call : ""));
}

}  // namespace

IoUringRestrictions IoUringRestrictions::of_this_process() {
  IoUringRestrictions found;
  std::ifstream("/proc/sys/kernel/io_uring_disabled") >> found.disabled;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (absl::StartsWith(line, "Seccomp:")) found.has_filter = absl::EndsWith(line, "2");
  }
  return found;
}

absl::Status io_uring_error(const char* call, int error, const IoUringRestrictions& restrictions) {
  switch (error) {
    case ENOSYS:
      // The kernels that have the sysctl have io_uring, unless built without, and then they have no sysctl either.
      if (restrictions.has_filter && !restrictions.disabled.empty()) return filtered(call);
      return absl::UnavailableError(
          absl::StrCat("this kernel has no io_uring; Sluice needs Linux 6.6 or newer built with CONFIG_IO_URING",
                       restrictions.has_filter ? ", and a seccomp filter that does not hide it" : ""));
    case EPERM:
    case EACCES:
      return forbidden(call, restrictions);
    case EINVAL:
      return absl::UnavailableError(
          "this kernel's io_uring lacks SINGLE_ISSUER | DEFER_TASKRUN; Sluice needs Linux 6.6 or newer");
    case ENOMEM:
      return absl::ResourceExhaustedError(
          "no memory for the io_uring queues; raise `ulimit -l` or lower limits.max_connections");
    default:
      return absl::InternalError(absl::StrCat("cannot set up io_uring: ", std::strerror(error)));
  }
}

absl::Status check_io_uring_access() {
  const auto is_forbidden = [](long result) {
    return result < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS);
  };
  // Calls that fail for another reason where they are allowed.
  const char* call = nullptr;
  if (is_forbidden(syscall(SYS_io_uring_setup, 1, nullptr))) {
    call = "io_uring_setup";
  } else if (is_forbidden(syscall(SYS_io_uring_enter, -1, 0, 0, 0, nullptr, 0))) {
    call = "io_uring_enter";
  } else if (is_forbidden(syscall(SYS_io_uring_register, -1, 0, nullptr, 0))) {
    call = "io_uring_register";
  }
  if (!call) return absl::OkStatus();
  const int error = errno;
  return io_uring_error(call, error, IoUringRestrictions::of_this_process());
}

}  // namespace sluice
