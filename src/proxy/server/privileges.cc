#include "proxy/server/privileges.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proxy/server/config_files.h"

namespace sluice {

namespace {

constexpr mode_t kLogMode = 0640;  // As the logs themselves make a file.

absl::Status change_error(const ProcessIds& ids, const char* call) {
  const int error = errno;
  const char* const hint =
      error == EPERM ? "; a container or a unit may withhold CAP_SETUID or CAP_SETGID: add them, or start as that user"
                     : "";
  return absl::ErrnoToStatus(error, absl::StrCat("user: cannot change to ", ids.user, " (uid ", ids.uid, ", gid ",
                                                 ids.gid, "): ", call, hint));
}

// The capabilities of the calling thread, of the first 32, among which is all that matters here.
using Capabilities = std::array<__user_cap_data_struct, 2>;  // Version 3 has two words.

constexpr uint32_t kBindService = 1U << CAP_NET_BIND_SERVICE;

bool get_capabilities(Capabilities& found) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  return syscall(SYS_capget, &header, found.data()) == 0;
}

bool set_capabilities(const Capabilities& wanted) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  return syscall(SYS_capset, &header, wanted.data()) == 0;
}

// Ambient, so that the program of an upgrade has it too.
absl::Status limit_capabilities(const ProcessIds& ids, bool keeps_low_ports) {
  Capabilities wanted{};
  if (keeps_low_ports) wanted[0] = {kBindService, kBindService, kBindService};
  if (!set_capabilities(wanted)) return change_error(ids, "capset");
  if (keeps_low_ports && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_BIND_SERVICE, 0, 0) != 0) {
    return change_error(ids, "prctl(PR_CAP_AMBIENT)");
  }
  return absl::OkStatus();
}

bool has(const ProcessIds& ids) {
  uid_t real = 0, effective = 0, saved = 0;
  gid_t real_group = 0, effective_group = 0, saved_group = 0;
  getresuid(&real, &effective, &saved);
  getresgid(&real_group, &effective_group, &saved_group);
  return real == ids.uid && effective == ids.uid && saved == ids.uid && real_group == ids.gid &&
         effective_group == ids.gid && saved_group == ids.gid;
}

absl::StatusOr<gid_t> find_group(const std::string& name) {
  gid_t number = 0;
  if (absl::SimpleAtoi(name, &number)) return number;
  const group* const found = getgrnam(name.c_str());
  if (!found) {
    return absl::NotFoundError(
        absl::StrCat("there is no group \"", name, "\" on this machine: make it, or name another"));
  }
  return found->gr_gid;
}

uint16_t first_unprivileged_port() {
  uint16_t port = 1024;
  std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> port;
  return port;
}

void make_log_file(const std::string& path, const ProcessIds& ids) {
  // O_EXCL: an existing file, and whatever a link names, stays what it is.
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kLogMode);
  if (fd < 0) return;
  (void)!fchown(fd, ids.uid, ids.gid);
  close(fd);
}

}  // namespace

absl::StatusOr<ProcessIds> find_process_ids(const config::ProcessUser& user) {
  ProcessIds ids{.user = user.text()};
  const passwd* found = getpwnam(user.name().c_str());
  if (!found && absl::SimpleAtoi(user.name(), &ids.uid)) found = getpwuid(ids.uid);
  const bool is_number = !found && absl::SimpleAtoi(user.name(), &ids.uid);
  if (!found && !is_number) {
    return absl::NotFoundError(
        absl::StrCat("there is no user \"", user.name(), "\" on this machine: make it, or name another"));
  }
  if (!found && user.group().empty()) {
    return absl::NotFoundError(
        absl::StrCat("uid ", user.name(), " has no name on this machine, so its group must be given: UID:GID"));
  }
  if (found) ids.uid = found->pw_uid, ids.gid = found->pw_gid;
  const std::string name = found ? found->pw_name : "";
  if (!user.group().empty()) {
    const absl::StatusOr<gid_t> group = find_group(user.group());
    if (!group.ok()) return group.status();
    ids.gid = *group;
  }
  if (ids.uid == 0) {
    return absl::InvalidArgumentError(absl::StrCat("\"", user.name(), "\" is root: name a user without privileges"));
  }
  ids.groups = {ids.gid};
  if (name.empty()) return ids;
  int count = 0;
  getgrouplist(name.c_str(), ids.gid, nullptr, &count);
  ids.groups.resize(static_cast<size_t>(std::max(count, 1)));
  if (getgrouplist(name.c_str(), ids.gid, ids.groups.data(), &count) < 0) ids.groups = {ids.gid};
  return ids;
}

absl::Status may_become(const ProcessIds& ids) {
  if (geteuid() == 0 || has(ids)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("only root can change to user ", ids.user,
                                                  ", and this process has uid ", geteuid(), " and gid ", getegid(),
                                                  ": start it as root or as that user, or leave the key out"));
}

absl::Status become(const ProcessIds& ids, bool keeps_low_ports) {
  if (!has(ids)) {
    Capabilities before{};
    keeps_low_ports = keeps_low_ports && get_capabilities(before) && (before[0].permitted & kBindService) != 0;
    // The GNU C library changes the IDs of all threads. Those that have no PR_SET_KEEPCAPS lose all capabilities.
    // The memory of rings and of sends without a copy counts against this limit from now on.
    const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    (void)setrlimit(RLIMIT_MEMLOCK, &unlimited);
    if (setgroups(ids.groups.size(), ids.groups.data()) != 0) return change_error(ids, "setgroups");
    if (setresgid(ids.gid, ids.gid, ids.gid) != 0) return change_error(ids, "setresgid");
    if (prctl(PR_SET_KEEPCAPS, keeps_low_ports ? 1 : 0, 0, 0, 0) != 0) return change_error(ids, "prctl");
    if (setresuid(ids.uid, ids.uid, ids.uid) != 0) return change_error(ids, "setresuid");
    (void)prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
    if (absl::Status limited = limit_capabilities(ids, keeps_low_ports); !limited.ok()) return limited;
  }
  if (!has(ids) || setresuid(0, 0, 0) == 0 || seteuid(0) == 0 || setgroups(0, nullptr) == 0) {
    return absl::InternalError(absl::StrCat(
        "user: the process has changed to ", ids.user,
        ", but can change back: its capabilities or securebits allow that; start it without them (see capsh --print)"));
  }
  return absl::OkStatus();
}

std::string describe_process() {
  Capabilities now{};
  (void)get_capabilities(now);
  const bool any = now[0].permitted != 0 || now[1].permitted != 0;
  const bool one = now[0].permitted == kBindService && now[1].permitted == 0;
  return absl::StrCat("uid ", geteuid(), ", gid ", getegid(),
                      !any  ? ", without capabilities"
                      : one ? ", with CAP_NET_BIND_SERVICE only"
                            : ", with capabilities");
}

bool has_low_port(const config::Config& config) {
  const uint16_t first = first_unprivileged_port();
  const auto is_low = [first](const config::Address& address) {
    return address.kind() != config::Address::Kind::kUnix && address.port() != 0 && address.port() < first;
  };
  if (config.admin && std::ranges::any_of(config.admin->addresses, is_low)) return true;
  return std::ranges::any_of(config.listeners, [&](const config::Listener& listener) {
    return std::ranges::any_of(listener.addresses, is_low);
  });
}

void make_log_files(const config::Config& config, const ProcessIds& ids) {
  if (geteuid() != 0) return;
  for (const std::string& file : log_files_of(config)) make_log_file(file, ids);
}

void forbid_new_privileges() { (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }

void limit_core_dumps(const config::Config& config) {
  const bool automatic = config.core_dumps == config::CoreDumps::kAuto;
  if (automatic && !config.user.is_set()) return;
  const bool on = config.core_dumps == config::CoreDumps::kOn;
  (void)prctl(PR_SET_DUMPABLE, on ? 1 : 0, 0, 0, 0);
  const rlimit none{0, 0};
  if (!on) (void)setrlimit(RLIMIT_CORE, &none);
}

}  // namespace sluice
