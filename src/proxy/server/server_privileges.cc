// What the process gives up at its start: the user root, files that are not its own, and system calls.

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/log/run_log.h"
#include "proxy/server/sandbox.h"
#include "proxy/server/server.h"
#include "proxy/server/system_call_filter.h"

namespace sluice {

namespace {

absl::Status sandbox_error(const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("sandbox: ", status.message()));
}

}  // namespace

// Everything is open by now that may need root.
absl::Status Server::change_user(const ProcessIds& ids) {
  const config::Config& config = *generation_.config;
  const bool was_root = geteuid() == 0;
  if (absl::Status changed = become(ids, has_low_port(config)); !changed.ok()) return changed;
  limit_core_dumps(config);
  log_line(LogLevel::kInfo, absl::StrCat("runs as ", ids.user, ": ", describe_process()));
  // The process of an upgrade has inherited that.
  if (const absl::Status refused = was_root ? refuse_unused_system_calls() : absl::OkStatus(); !refused.ok()) {
    log_line(LogLevel::kWarning, absl::StrCat("system calls that are never needed stay possible: ", refused.message()));
  }
  // A reload and an upgrade read and check the same again, as that user.
  std::vector<std::string> files;
  const absl::Status again = options_.load ? options_.load(files).status() : absl::OkStatus();
  if (!again.ok()) {
    log_lines(LogLevel::kWarning, absl::StrCat("a reload or an upgrade would fail now, because ", ids.user,
                                               " may not do what root could: ", again.message()));
  }
  if (access("/proc/self/exe", X_OK) != 0) {
    log_line(LogLevel::kWarning,
             absl::StrCat("an upgrade would fail now, because ", ids.user, " may not execute the program's file"));
  }
  return absl::OkStatus();
}

// Must be called before there are other threads: Landlock binds only those that are started later.
absl::Status Server::begin_sandbox() {
  const config::Config& config = *generation_.config;
  if (!config.sandbox) return absl::OkStatus();
  const absl::Status restricted = restrict_files(sandbox_files(config, options_.files));
  return restricted.ok() ? restricted : sandbox_error(restricted);
}

// All threads run by now, and the start has made the calls that serving does not need.
absl::Status Server::complete_sandbox() {
  if (!generation_.config->sandbox) return absl::OkStatus();
  const absl::Status restricted = allow_used_system_calls();
  if (!restricted.ok()) return sandbox_error(restricted);
  log_line(LogLevel::kInfo,
           "sandbox: opens files only in the folders of its configuration and its logs, and starts no programs");
  return absl::OkStatus();
}

}  // namespace sluice
