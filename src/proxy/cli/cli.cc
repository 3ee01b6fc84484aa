#include "proxy/cli/cli.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proxy/cli/explain_command.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/diagnostics.h"
#include "proxy/config/load/from_flags.h"
#include "proxy/config/load/json_schema.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/print.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/units.h"
#include "proxy/server/server.h"
#include "proxy/server/startup_check.h"
#include "sluice/chunk_pool.h"
#include "sluice/version.h"

namespace sluice {

namespace {

constexpr std::string_view kUsage = R"(usage:
  sluice run --config FILE [OPTIONS]
  sluice run --listen ADDRESS --to ADDRESS [--to ADDRESS ...] [--tcp] [OPTIONS]
  sluice check --config FILE [--print]
  sluice explain --config FILE [METHOD] URL [OPTIONS]
  sluice schema
  sluice version

schema prints the JSON schema of the configuration, for editors.

run options:
  --workers N        threads; default: as many as the affinity mask and the CPU quota allow
  --rings MODE       provided-buffer rings: auto, plain or incremental; default auto
  --pool SOURCE      where buffers come from: arena (pools of reused memory) or malloc (one malloc and free each, to see
                     what the pools are worth); default arena
  --read-mode MODE   what a connection that waits for data holds: provided (nothing), ready (nothing, but takes a buffer of
                     32 KiB for each read) or pinned (such a buffer); the last two are for comparison; default provided
  --stats INTERVAL   print the counters every INTERVAL (1s, 500ms); SIGUSR2 prints the counters once, and they are always
                     printed at exit

explain options, which describe a hypothetical request:
  -H 'NAME: VALUE'   a header field; repeat for more
  --from IP          the client's address; default 127.0.0.1
  --peer NAME        an authenticated identity of the client; repeat for more
  --listener NAME    the listener; default: by the URL's scheme and port

signals of run:
  TERM, INT, QUIT    drain: no new connections, up to `shutdown_timeout` for the others; a second signal ends them
  HUP                reload the files of TLS and of `auth`; the configuration itself is read at start only
  USR1               reopen the access logs, after they were renamed

Relative paths, here and in the configuration, are relative to the working directory.

addresses: 127.0.0.1:8080, [::1]:8080, unix:/run/app.sock
)";

constexpr std::string_view kOptions[] = {"--config", "--listen", "--to",        "--tcp",   "--workers",
                                         "--rings",  "--pool",   "--read-mode", "--stats", "--print"};

constexpr std::string_view kCommands[] = {"run", "check", "explain", "schema", "version", "help"};

bool is_command(std::string_view word) {
  return std::find(std::begin(kCommands), std::end(kCommands), word) != std::end(kCommands);
}

struct Flags {
  std::string config;
  config::RunFlags run;
  std::optional<uint32_t> workers;
  std::optional<config::Rings> rings;
  std::optional<ChunkPool::Source> pool;
  std::optional<ReadMode> read_mode;
  std::chrono::milliseconds stats{0};
  bool print = false;

  bool is_for_run() const {
    return !run.listen.empty() || !run.to.empty() || run.tcp || workers || rings || pool || read_mode ||
           stats.count() > 0;
  }
};

void say(std::string_view message) {
  std::fprintf(stderr, "sluice: %.*s\n", static_cast<int>(message.size()), message.data());
}

int fail(int code, std::string_view message) {
  say(message);
  return code;
}

absl::Status set_workers(std::string_view value, Flags& flags) {
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size() || count < 1 || count > 1024) {
    return absl::InvalidArgumentError("--workers takes a number from 1 to 1024");
  }
  flags.workers = count;
  return absl::OkStatus();
}

absl::Status set_rings(std::string_view value, Flags& flags) {
  if (value == "auto") {
    flags.rings = config::Rings::kAuto;
  } else if (value == "plain") {
    flags.rings = config::Rings::kPlain;
  } else if (value == "incremental") {
    flags.rings = config::Rings::kIncremental;
  } else {
    return absl::InvalidArgumentError("--rings takes auto, plain or incremental");
  }
  return absl::OkStatus();
}

absl::Status set_pool(std::string_view value, Flags& flags) {
  if (value == "arena") {
    flags.pool = ChunkPool::Source::kArena;
  } else if (value == "malloc") {
    flags.pool = ChunkPool::Source::kHeap;
  } else {
    return absl::InvalidArgumentError("--pool takes arena or malloc");
  }
  return absl::OkStatus();
}

absl::Status set_read_mode(std::string_view value, Flags& flags) {
  if (value == "provided") {
    flags.read_mode = ReadMode::kProvided;
  } else if (value == "ready") {
    flags.read_mode = ReadMode::kReady;
  } else if (value == "pinned") {
    flags.read_mode = ReadMode::kPinned;
  } else {
    return absl::InvalidArgumentError("--read-mode takes provided, ready or pinned");
  }
  return absl::OkStatus();
}

absl::Status set_stats(std::string_view value, Flags& flags) {
  const auto interval = config::parse_duration(value);
  if (!interval.ok()) return absl::InvalidArgumentError(absl::StrCat("--stats: ", interval.status().message()));
  flags.stats = *interval;
  return absl::OkStatus();
}

absl::Status set_option(std::string_view name, std::string_view value, Flags& flags) {
  if (name == "--config") {
    flags.config = value;
  } else if (name == "--listen") {
    flags.run.listen = value;
  } else if (name == "--to") {
    flags.run.to.emplace_back(value);
  } else if (name == "--workers") {
    return set_workers(value, flags);
  } else if (name == "--rings") {
    return set_rings(value, flags);
  } else if (name == "--pool") {
    return set_pool(value, flags);
  } else if (name == "--read-mode") {
    return set_read_mode(value, flags);
  } else if (name == "--stats") {
    return set_stats(value, flags);
  }
  return absl::OkStatus();
}

absl::Status unknown_option(std::string_view name) {
  return absl::InvalidArgumentError(
      absl::StrCat("unknown option ", config::in_quotes(name), config::did_you_mean(name, kOptions)));
}

// Parses options of the form `--name value` or `--name=value`.
absl::StatusOr<Flags> parse_flags(std::span<const std::string_view> arguments) {
  Flags flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const size_t equals = arguments[i].find('=');
    const std::string_view name = arguments[i].substr(0, equals);
    if (name == "--tcp" || name == "--print") {
      if (equals != std::string_view::npos) return absl::InvalidArgumentError(absl::StrCat(name, " takes no value"));
      (name == "--tcp" ? flags.run.tcp : flags.print) = true;
      continue;
    }
    if (std::find(std::begin(kOptions), std::end(kOptions), name) == std::end(kOptions)) return unknown_option(name);
    std::string_view value;
    if (equals != std::string_view::npos) {
      value = arguments[i].substr(equals + 1);
    } else if (++i < arguments.size()) {
      value = arguments[i];
    } else {
      return absl::InvalidArgumentError(absl::StrCat(name, " needs a value"));
    }
    const absl::Status set = set_option(name, value, flags);
    if (!set.ok()) return set;
  }
  return flags;
}

config::FurtherCheck check_for(CheckFor purpose) {
  return [purpose](const config::Config& config, config::Report& report) { check_startup(config, purpose, report); };
}

absl::StatusOr<config::Config> load(const Flags& flags) {
  if (flags.config.empty()) return config::from_flags(flags.run);
  if (!flags.run.listen.empty() || !flags.run.to.empty() || flags.run.tcp) {
    return absl::InvalidArgumentError("--config replaces --listen, --to and --tcp; give one or the other");
  }
  return config::load_file(flags.config, nullptr, check_for(CheckFor::kRun));
}

int run(const Flags& flags) {
  if (flags.print) return fail(2, "--print belongs to check");
  auto config = load(flags);
  if (!config.ok()) return fail(1, config.status().message());
  if (flags.workers) config->workers = flags.workers;
  if (flags.rings) config->memory.rings = *flags.rings;
  Server server(*std::move(config), {.config_path = flags.config,
                                     .stats_interval = flags.stats,
                                     .pool_source = flags.pool.value_or(ChunkPool::Source::kArena),
                                     .read_mode = flags.read_mode.value_or(ReadMode::kProvided)});
  const absl::Status status = server.run();
  return status.ok() ? 0 : fail(1, status.message());
}

int check(const Flags& flags) {
  if (flags.config.empty()) return fail(2, "check needs --config FILE");
  if (flags.is_for_run()) return fail(2, "check takes --config and --print only");
  std::vector<std::string> warnings;
  const auto config = config::load_file(flags.config, &warnings, check_for(CheckFor::kCheck));
  for (const std::string& warning : warnings) std::fprintf(stderr, "%s\n", warning.c_str());
  if (!config.ok()) {
    std::fprintf(stderr, "%s\n", std::string(config.status().message()).c_str());
    return 1;
  }
  if (flags.print) {
    std::fputs(config::print_config(*config).c_str(), stdout);
  } else {
    std::printf("%s: ok\n", flags.config.c_str());
  }
  return 0;
}

}  // namespace

int run_command_line(std::span<const std::string_view> arguments) {
  const std::string_view command = arguments.empty() ? std::string_view() : arguments[0];
  if (command == "version" || command == "--version") {
    std::printf("sluice %s\n", SLUICE_VERSION_STRING);
    return 0;
  }
  const bool wants_help = std::any_of(arguments.begin(), arguments.end(),
                                      [](std::string_view each) { return each == "--help" || each == "-h"; });
  if (command == "help" || (wants_help && is_command(command)) || command == "--help" || command == "-h") {
    std::fputs(std::string(kUsage).c_str(), stdout);
    return 0;
  }
  if (command == "schema") {
    std::fputs(config::json_schema().c_str(), stdout);
    return 0;
  }
  if (command == "explain") return explain_command(arguments.subspan(1));
  if (command.empty()) {
    std::fputs(std::string(kUsage).c_str(), stderr);
    return 2;
  }
  if (command != "run" && command != "check") {
    return fail(2, absl::StrCat("unknown command ", config::in_quotes(command),
                                config::did_you_mean(command, kCommands), "; see `sluice help`"));
  }
  const auto flags = parse_flags(arguments.subspan(1));
  if (!flags.ok()) return fail(2, absl::StrCat(flags.status().message(), "\nsee `sluice help`"));
  return command == "run" ? run(*flags) : check(*flags);
}

}  // namespace sluice
