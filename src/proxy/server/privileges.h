// What the process gives up for good: the user root, new privileges, core dumps.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"

namespace sluice {

/// What a process runs as.
struct ProcessIds {
  std::string user;  ///< For messages, as configured.
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  ///< The supplementary ones.
};

/// Looks a user up. NotFound: this machine has no such user or group; InvalidArgument: it is root. Not for
/// two threads at a time.
absl::StatusOr<ProcessIds> find_process_ids(const config::ProcessUser& user);

/// Whether this process is root, or has these IDs already. The error is for the user.
absl::Status may_become(const ProcessIds& ids);

/// Changes to these IDs in all threads, for good, and verifies that there is no way back. A process that has them
/// already stays as it is. All capabilities end, but for CAP_NET_BIND_SERVICE in the calling thread, those that it
/// starts, and programs that it starts, if `keeps_low_ports`. The error is for the user; the process must end then.
absl::Status become(const ProcessIds& ids, bool keeps_low_ports);

/// "user "sluice" (uid 101, gid 103), with CAP_NET_BIND_SERVICE", for the log.
std::string describe_process();

/// Whether the configuration has an address with a port that only privileged processes may use.
bool has_low_port(const config::Config& config);

/// Makes the log files that do not exist yet, with these IDs as their owner, so that they can be opened again later.
/// Files that exist are left alone, whoever owns them. A failure is found where the file is opened.
void make_log_files(const config::Config& config, const ProcessIds& ids);

/// No program that this process starts gets more rights than it has: neither by the owner or the capabilities of its
/// file, nor by a security module. Must be called before there are other threads.
void forbid_new_privileges();

/// Applies `core_dumps`. A change of the user changes it too, so this must be called after that.
void limit_core_dumps(const config::Config& config);

}  // namespace sluice
