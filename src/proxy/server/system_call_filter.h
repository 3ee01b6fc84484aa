#pragma once

#include "absl/status/status.h"

namespace sluice {

/// Refuses, in all threads and for good, system calls that no part of this program needs, be it at a start or while it
/// serves: those that trace other processes, make namespaces, mount, load code into the kernel, and so on, and sockets
/// of other families than those of IP, Unix and netlink. Programs that the process starts inherit that. A refused call
/// fails with EPERM. Requires no_new_privs. The error is for the user; nothing has changed then.
///
/// It does not see what rings of io_uring do: Ring limits that.
absl::Status refuse_unused_system_calls();

/// Refuses, in all threads and for good, all system calls but those of a process that serves. It can no longer start a
/// program, or change its user or its root. A refused call fails with EPERM. A call that is newer than this program
/// fails with ENOSYS, so that libraries use an older one. Requires no_new_privs. The error is for the user; nothing has
/// changed then.
absl::Status allow_used_system_calls();

}  // namespace sluice
