#include "proxy/cli/cli.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proxy/cli/admin_command.h"
#include "proxy/cli/arguments.h"
#include "proxy/cli/command_table.h"
#include "proxy/cli/completion.h"
#include "proxy/cli/control_command.h"
#include "proxy/cli/convert_command.h"
#include "proxy/cli/explain_command.h"
#include "proxy/cli/failure.h"
#include "proxy/cli/help_page.h"
#include "proxy/cli/manual.h"
#include "proxy/cli/top_command.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/diagnostics.h"
#include "proxy/config/load/from_flags.h"
#include "proxy/config/load/json_schema.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/print.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/units.h"
#include "proxy/server/predecessor.h"
#include "proxy/server/server.h"
#include "proxy/server/startup_check.h"
#include "proxy/xds/xds_client.h"
#include "sluice/chunk_pool.h"
#include "sluice/internal/check.h"
#include "sluice/version.h"

namespace sluice {

namespace {

struct Flags {
  std::string config;
  config::RunFlags run;
  std::optional<uint32_t> workers;
  std::optional<config::Rings> rings;
  ChunkPool::Source pool = ChunkPool::Source::kArena;
  ReadMode read_mode = ReadMode::kProvided;
  std::chrono::milliseconds stats{0};
  std::optional<xds::XdsClient::Options> xds;
};

// Where what a control plane has sent is kept.
constexpr std::string_view kXdsCache = "/var/lib/sluice/xds";

absl::Status set_workers(std::string_view value, Flags& flags) {
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size() || count < 1 || count > 1024) {
    return absl::InvalidArgumentError("--workers takes a number from 1 to 1024");
  }
  flags.workers = count;
  return absl::OkStatus();
}

config::Rings rings_of(std::string_view value) {
  return value == "auto"    ? config::Rings::kAuto
         : value == "plain" ? config::Rings::kPlain
                            : config::Rings::kIncremental;
}

ReadMode read_mode_of(std::string_view value) {
  return value == "provided" ? ReadMode::kProvided : value == "ready" ? ReadMode::kReady : ReadMode::kPinned;
}

absl::StatusOr<Flags> flags_of(const Arguments& arguments) {
  Flags flags;
  flags.config = arguments.value("--config").value_or("");
  flags.run.listen = arguments.value("--listen").value_or("");
  for (const std::string_view to : arguments.values("--to")) flags.run.to.emplace_back(to);
  flags.run.tcp = arguments.has("--tcp");
  if (const auto workers = arguments.value("--workers")) {
    if (const absl::Status set = set_workers(*workers, flags); !set.ok()) return set;
  }
  if (const auto rings = arguments.value("--rings")) flags.rings = rings_of(*rings);
  if (const auto pool = arguments.value("--pool")) {
    flags.pool = *pool == "arena" ? ChunkPool::Source::kArena : ChunkPool::Source::kHeap;
  }
  if (const auto mode = arguments.value("--read-mode")) flags.read_mode = read_mode_of(*mode);
  if (const auto stats = arguments.value("--stats")) {
    const auto interval = config::parse_duration(*stats);
    if (!interval.ok()) return absl::InvalidArgumentError(absl::StrCat("--stats: ", interval.status().message()));
    flags.stats = *interval;
  }
  if (const auto bootstrap = arguments.value("--xds")) {
    flags.xds = {.bootstrap = std::string(*bootstrap),
                 .cache_folder = std::string(arguments.value("--xds-cache").value_or(kXdsCache)),
                 .accepts_unsupported = arguments.value("--xds-unsupported").value_or("reject") == "warn",
                 .check = [](const config::Config& config, config::Report& report) {
                   check_startup(config, CheckFor::kReload, report);
                 }};
    if (!flags.config.empty() || !flags.run.listen.empty() || !flags.run.to.empty() || flags.run.tcp) {
      return absl::InvalidArgumentError("--xds replaces --config, --listen, --to and --tcp; give one or the other");
    }
  }
  return flags;
}

// Puts the files that the configuration is made of into `files`.
absl::StatusOr<config::Config> load(const Flags& flags, CheckFor purpose, std::vector<std::string>& files) {
  if (flags.config.empty()) return config::from_flags(flags.run);
  if (!flags.run.listen.empty() || !flags.run.to.empty() || flags.run.tcp) {
    return absl::InvalidArgumentError("--config replaces --listen, --to and --tcp; give one or the other");
  }
  return config::load_file(flags.config, nullptr, [&](const config::Config& config, config::Report& report) {
    check_startup(config, purpose, report);
    files = report.sources();
  });
}

// Whether a signal to stop has arrived. It must be blocked.
bool is_stopped(const sigset_t& signals) {
  const timespec no_time{};
  return sigtimedwait(&signals, nullptr, &no_time) > 0;
}

// Starts the client of a control plane, and waits until it has a configuration. Null: a signal has ended that.
absl::StatusOr<std::unique_ptr<xds::XdsClient>> start_xds(const xds::XdsClient::Options& options) {
  constexpr std::chrono::milliseconds kPoll{50};
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  absl::StatusOr<std::unique_ptr<xds::XdsClient>> client = xds::XdsClient::start(options);
  while (client.ok() && !(*client)->feed().wait_for_first(kPoll)) {
    if (is_stopped(signals)) return nullptr;
    if ((*client)->feed().closed()) return absl::UnavailableError("there is no configuration, and none can come");
  }
  return client;
}

int run(const Arguments& arguments) {
  if (const absl::Status alone = Predecessor::leave_parent(); !alone.ok()) return fail(1, alone.message());
  const absl::StatusOr<Flags> parsed = flags_of(arguments);
  if (!parsed.ok()) return fail_usage("run", parsed.status().message());
  const Flags& flags = *parsed;
  std::unique_ptr<xds::XdsClient> client;
  if (flags.xds) {
    absl::StatusOr<std::unique_ptr<xds::XdsClient>> started = start_xds(*flags.xds);
    if (!started.ok()) return fail(1, started.status().message());
    client = *std::move(started);
    if (!client) return 0;
  }
  CheckFor purpose = CheckFor::kRun;
  const auto load_with_flags = [&flags, &purpose, &client](std::vector<std::string>& files) {
    absl::StatusOr<config::Config> config =
        client ? *client->feed().latest() : load(flags, std::exchange(purpose, CheckFor::kReload), files);
    if (config.ok() && flags.workers) config->workers = flags.workers;
    if (config.ok() && flags.rings) config->memory.rings = *flags.rings;
    return config;
  };
  std::vector<std::string> files;
  auto config = load_with_flags(files);
  if (!config.ok()) return fail(1, config.status().message());
  Server server(*std::move(config), {.config_path = flags.xds ? flags.xds->bootstrap : flags.config,
                                     .stats_interval = flags.stats,
                                     .pool_source = flags.pool,
                                     .read_mode = flags.read_mode,
                                     .files = std::move(files),
                                     .load = load_with_flags,
                                     .feed = client ? &client->feed() : nullptr,
                                     .xds_counters = client ? &client->counters() : nullptr,
                                     .xds_dump = client ? &client->dump() : nullptr,
                                     .xds_loads = client ? &client->loads() : nullptr});
  const absl::Status status = server.run();
  client.reset();
  return status.ok() ? 0 : fail(1, status.message());
}

int check(const Arguments& arguments) {
  const std::string path(arguments.value("--config").value_or(""));
  if (path.empty()) return fail_usage("check", "check needs --config FILE");
  std::vector<std::string> warnings;
  const auto config = config::load_file(path, &warnings, [](const config::Config& loaded, config::Report& report) {
    check_startup(loaded, CheckFor::kCheck, report);
  });
  for (const std::string& warning : warnings) std::fprintf(stderr, "%s\n", warning.c_str());
  if (!config.ok()) {
    std::fprintf(stderr, "%s\n", std::string(config.status().message()).c_str());
    return 1;
  }
  if (arguments.has("--print")) {
    std::fputs(config::print_config(*config).c_str(), stdout);
  } else {
    std::printf("%s: ok\n", path.c_str());
  }
  return 0;
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}

int unknown_command(std::string_view word) {
  const std::string guess = config::did_you_mean(word, command_names());
  return fail(2, absl::StrCat("unknown command ", config::in_quotes(word), guess, "; see `sluice help`"));
}

int help(const Arguments& arguments) {
  if (arguments.words().empty()) return print(help_overview());
  const Command* const command = find_command(arguments.words()[0]);
  return command ? print(help_page(*command)) : unknown_command(arguments.words()[0]);
}

int completion(const Arguments& arguments) {
  if (arguments.words().empty()) return fail_usage("completion", "completion needs a shell: bash, zsh or fish");
  return print(completion_script(arguments.words()[0]));
}

struct Handler {
  std::string_view command;
  int (*run)(const Arguments& arguments);
};

// By command, as in the table of commands.
constexpr Handler kHandlers[] = {
    {"run", run},
    {"check", check},
    {"reload", [](const Arguments& arguments) { return reload_command(arguments); }},
    {"upgrade", [](const Arguments& arguments) { return upgrade_command(arguments); }},
    {"diff", [](const Arguments& arguments) { return diff_command(arguments); }},
    {"admin", [](const Arguments& arguments) { return admin_command(arguments); }},
    {"top", [](const Arguments& arguments) { return top_command(arguments); }},
    {"explain", [](const Arguments& arguments) { return explain_command(arguments); }},
    {"convert", [](const Arguments& arguments) { return convert_command(arguments); }},
    {"schema", [](const Arguments&) { return print(config::json_schema()); }},
    {"completion", completion},
    {"manual", [](const Arguments&) { return print(manual_page()); }},
    {"version", [](const Arguments&) { return print(absl::StrCat("sluice ", SLUICE_VERSION_STRING, "\n")); }},
    {"help", help},
};

}  // namespace

int run_command_line(std::span<const std::string_view> arguments) {
  if (arguments.empty()) {
    std::fputs(help_overview().c_str(), stderr);
    return 2;
  }
  std::string_view name = arguments[0];
  if (name == "--version") name = "version";
  if (name == "--help" || name == "-h") name = "help";
  const Command* const command = find_command(name);
  if (!command) return unknown_command(name);
  const auto is_help = [](std::string_view each) { return each == "--help" || each == "-h"; };
  if (std::any_of(arguments.begin() + 1, arguments.end(), is_help)) return print(help_page(*command));
  const absl::StatusOr<Arguments> parsed = Arguments::parse(*command, arguments.subspan(1));
  if (!parsed.ok()) return fail_usage(name, parsed.status().message());
  const auto handler = std::find_if(std::begin(kHandlers), std::end(kHandlers),
                                    [&](const Handler& each) { return each.command == name; });
  SLUICE_CHECK(handler != std::end(kHandlers));
  return handler->run(*parsed);
}

}  // namespace sluice
