#include "proxy/cli/control_command.h"

#include <sys/types.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/cli/arguments.h"
#include "proxy/cli/failure.h"
#include "proxy/cli/running_config.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/diff.h"
#include "proxy/config/load/loader.h"
#include "proxy/server/control_socket.h"

namespace sluice {
namespace {

// The process that --pid names, or the only one there is.
absl::StatusOr<pid_t> process_of(const Arguments& arguments) {
  if (const auto value = arguments.value("--pid")) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(*value, &pid) || pid <= 0) {
      return absl::InvalidArgumentError(absl::StrCat("--pid takes a process ID, got ", config::in_quotes(*value)));
    }
    return pid;
  }
  const std::vector<pid_t> running = controllable_processes();
  if (running.empty()) return absl::NotFoundError("no running process found; give its ID with --pid");
  if (running.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("several processes are running: ", absl::StrJoin(running, ", "), "; choose with --pid"));
  }
  return running[0];
}

// Prints why there is no process to talk to. `failed` is the exit code where the command line is right.
int no_process(std::string_view command, const absl::Status& why, int failed) {
  return absl::IsInvalidArgument(why) ? fail_usage(command, why.message()) : fail(failed, why.message());
}

int print_changes(const config::Config& running, const config::Config& next) {
  const std::string changes = config::diff_configs(running, next);
  std::fputs(changes.c_str(), stdout);
  return changes.empty() ? 0 : 1;
}

}  // namespace

int reload_command(const Arguments& arguments) {
  const absl::StatusOr<pid_t> pid = process_of(arguments);
  if (!pid.ok()) return no_process("reload", pid.status(), 1);
  const absl::StatusOr<std::string> done = send_control_command(*pid, "reload");
  if (!done.ok()) return fail(1, done.status().message());
  std::printf("%s\n", done->c_str());
  return 0;
}

int upgrade_command(const Arguments& arguments) {
  const absl::StatusOr<pid_t> pid = process_of(arguments);
  if (!pid.ok()) return no_process("upgrade", pid.status(), 1);
  std::string command = "upgrade";
  // The process may have another working directory.
  if (const auto binary = arguments.value("--binary")) {
    absl::StrAppend(&command, " ", std::filesystem::absolute(*binary).string());
  }
  const absl::StatusOr<std::string> done = send_control_command(*pid, command);
  if (!done.ok()) return fail(1, done.status().message());
  std::printf("%s\n", done->c_str());
  return 0;
}

int diff_command(const Arguments& arguments) {
  const std::string path(arguments.value("--config").value_or(""));
  if (path.empty()) return fail_usage("diff", "diff needs --config FILE");
  if (arguments.has("--pid") && arguments.has("--against")) {
    return fail_usage("diff", "diff takes --pid or --against, not both");
  }
  const absl::StatusOr<config::Config> next = config::load_file(path);
  if (!next.ok()) return fail(2, next.status().message());
  if (arguments.has("--against")) {
    const absl::StatusOr<config::Config> running = running_config(arguments), compared = without_secrets(*next);
    if (!running.ok()) return fail(2, running.status().message());
    if (!compared.ok()) return fail(2, compared.status().message());
    return print_changes(*running, *compared);
  }
  const absl::StatusOr<pid_t> pid = process_of(arguments);
  if (!pid.ok()) return no_process("diff", pid.status(), 2);
  const absl::StatusOr<std::string> text = send_control_command(*pid, "config");
  if (!text.ok()) return fail(2, text.status().message());
  const absl::StatusOr<config::Config> running = config::load_text(*text, "the running configuration");
  if (!running.ok()) return fail(2, running.status().message());
  return print_changes(*running, *next);
}

}  // namespace sluice
