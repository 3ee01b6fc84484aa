#include "proxy/cli/command_table.h"

#include <algorithm>
#include <utility>

namespace sluice {

namespace {

using Row = CommandList::Row;

constexpr std::string_view kExitCodes = "Exit codes";

const CommandOption kConfig{.name = "--config", .value = "FILE", .text = "The configuration.", .is_file = true};
const CommandOption kPid{.name = "--pid",
                         .value = "PID",
                         .text = "The process. Without it there must be only one in this network namespace."};

std::vector<CommandOption> join(std::vector<CommandOption> first, const std::vector<CommandOption>& others) {
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

// Of a client of the admin listener.
const std::vector<CommandOption> kClientOptions{
    {.name = "--token-file",
     .value = "FILE",
     .text = "The file with the token. Default, if the address is that of the configuration: its `admin.token_file`.",
     .is_file = true},
    {.name = "--ca",
     .value = "FILE",
     .text = "Use TLS, with a server whose certificate comes from one of these authorities (PEM). Default, if the "
             "address is that of the configuration and has TLS: a server with one of its certificates.",
     .is_file = true},
    {.name = "--server-name",
     .value = "NAME",
     .text = "With --ca: the name that the certificate must be for. Default: the IP address."},
    {.name = "--certificate",
     .value = "FILE",
     .text = "The client's certificate and its chain (PEM).",
     .is_file = true},
    {.name = "--key", .value = "FILE", .text = "The key of --certificate (PEM).", .is_file = true}};
const std::vector<CommandOption> kAdminOptions =
    join({{.name = "--config",
           .value = "FILE",
           .text = "The configuration: its `admin` has the address, the token and the certificates.",
           .is_file = true},
          {.name = "--address",
           .value = "ADDRESS",
           .text = "The address, such as 127.0.0.1:9901 or unix:/run/sluice/admin.sock."}},
         kClientOptions);
const std::vector<CommandOption> kAgainstOptions = join(
    {{.name = "--against",
      .value = "ADDRESS",
      .text = "The admin listener of a running process, such as 127.0.0.1:9901 or unix:/run/sluice/admin.sock. Its "
              "configuration has `(hidden)` in the place of secrets."}},
    kClientOptions);
const CommandList kFailsWith1{kExitCodes,
                              {{"0", "It is done."}, {"1", "It failed."}, {"2", "The command line is wrong."}}};

std::vector<Command> make_commands() {
  std::vector<Command> commands;
  commands.push_back({
      .name = "run",
      .summary = "runs the proxy in the foreground",
      .usage = {"--config FILE [OPTIONS]", "--xds FILE [OPTIONS]",
                "--listen ADDRESS --to ADDRESS [--to ADDRESS ...] [--tcp] [OPTIONS]"},
      .text =
          "Serves until a signal ends it. The log goes to standard error, the counters to standard output. Relative "
          "paths, here and in the configuration, are relative to the working directory; those of `include` are "
          "relative to the folder of the file that has it.",
      .options =
          {
              kConfig,
              {.name = "--xds",
               .value = "FILE",
               .text =
                   "In place of a configuration: take it from a control plane (xDS) and follow its changes. FILE is "
                   "a bootstrap file of Envoy's, which names the control plane.",
               .is_file = true},
              {.name = "--xds-cache",
               .value = "DIR",
               .text =
                   "Where to keep what the control plane has sent, for a start without it, and the certificates and "
                   "keys that it sends. Default: /var/lib/sluice/xds."},
              {.name = "--xds-unsupported",
               .value = "MODE",
               .text = "What to do with a resource that has something without a counterpart: reject it, or warn and "
                       "go on without. Default: reject.",
               .choices = {"reject", "warn"}},
              {.name = "--listen",
               .value = "ADDRESS",
               .text = "Without a configuration: the address of the only listener."},
              {.name = "--to",
               .value = "ADDRESS",
               .text = "Without a configuration: an endpoint. Repeat it for more.",
               .repeats = true},
              {.name = "--tcp", .text = "Without a configuration: forward connections. Default: HTTP requests."},
              {.name = "--workers",
               .value = "N",
               .text = "The number of threads. Default: as many as the affinity mask and the CPU quota allow."},
              {.name = "--rings",
               .value = "MODE",
               .text = "Provided-buffer rings: auto, plain or incremental. Default: auto.",
               .choices = {"auto", "plain", "incremental"}},
              {.name = "--pool",
               .value = "SOURCE",
               .text = "Where buffers come from: arena (pools of reused memory) or malloc (one malloc and free each, "
                       "to see what the pools are worth). Default: arena.",
               .choices = {"arena", "malloc"}},
              {.name = "--read-mode",
               .value = "MODE",
               .text = "What a connection that waits for data holds: provided (nothing), ready (nothing, but takes a "
                       "buffer of 32 KiB for each read) or pinned (such a buffer). The last two are for comparison. "
                       "Default: provided.",
               .choices = {"provided", "ready", "pinned"}},
              {.name = "--stats",
               .value = "INTERVAL",
               .text = "Print the counters every INTERVAL, such as 1s or 500ms. They are always printed at exit."},
          },
      .lists = {{"Addresses",
                 {{"127.0.0.1:8080", "IPv4; 0.0.0.0 for all."},
                  {"[::1]:8080", "IPv6."},
                  {"unix:/run/app.sock", "A Unix socket."}}},
                {"Signals",
                 {{"TERM, INT, QUIT",
                   "Drain: no new connections, up to `shutdown_timeout` for the others. A second signal ends them."},
                  {"HUP", "Reload the configuration and the files that it names, like `sluice reload`."},
                  {"USR1", "Reopen the access logs, after they were renamed."},
                  {"USR2", "Print the counters."}}},
                {"Environment",
                 {{"NOTIFY_SOCKET",
                   "Where a service manager such as systemd takes notifications of start, reload and drain."},
                  {"WATCHDOG_USEC", "The service manager's time-out: it is fed while all workers make progress."}}}},
      .exit_codes = {kExitCodes,
                     {{"0", "A signal has ended it, and it has drained."},
                      {"1", "It could not start, or connections did not end in time."},
                      {"2", "The command line is wrong."}}},
  });
  commands.push_back({
      .name = "check",
      .summary = "checks a configuration",
      .usage = {"--config FILE [--print]"},
      .text = "Reports each mistake with its line and column, and all that `sluice run` would refuse.",
      .options = {kConfig, {.name = "--print", .text = "Print the configuration with all defaults."}},
      .exit_codes = {kExitCodes,
                     {{"0", "The configuration is valid."},
                      {"1", "It is not, or cannot be read."},
                      {"2", "The command line is wrong."}}},
  });
  commands.push_back({
      .name = "reload",
      .summary = "makes a running process apply its changed configuration",
      .usage = {"[--pid PID]"},
      .text = "Waits until the configuration is applied, and prints what has changed. If it is not valid or cannot be "
              "applied, it prints why, and nothing changes.",
      .options = {kPid},
      .exit_codes = {kExitCodes,
                     {{"0", "The configuration is applied."},
                      {"1", "It is not, or there is no such process."},
                      {"2", "The command line is wrong."}}},
  });
  commands.push_back({
      .name = "upgrade",
      .summary = "replaces a running process by a new one",
      .usage = {"[--binary PATH] [--pid PID]"},
      .text =
          "Starts the program anew, with the command line of the running process. The new process takes over the "
          "listening sockets and the connections, and the old one ends when it has none left. If the new one does not "
          "get ready, it prints why, and nothing changes.",
      .options = {{.name = "--binary",
                   .value = "PATH",
                   .text = "The program to start; default: the file of the running one.",
                   .is_file = true},
                  kPid},
      .exit_codes = {kExitCodes,
                     {{"0", "The new process serves."},
                      {"1", "It does not, or there is no such process."},
                      {"2", "The command line is wrong."}}},
  });
  commands.push_back({
      .name = "diff",
      .summary = "prints what a reload would change",
      .usage = {"--config FILE [--pid PID]", "--config FILE --against ADDRESS [OPTIONS]"},
      .text = "Compares a configuration with that of a running process, and changes nothing.",
      .options = join({kConfig, kPid}, kAgainstOptions),
      .exit_codes = {kExitCodes,
                     {{"0", "Nothing would change."},
                      {"1", "Something would."},
                      {"2", "The command line or the configuration is wrong, or there is no such process."}}},
  });
  commands.push_back({
      .name = "admin",
      .summary = "requests a page of the admin listener of a running process",
      .usage = {"--config FILE [OPTIONS] PATH [VALUE...]", "--address ADDRESS [OPTIONS] PATH [VALUE...]"},
      .text =
          "Prints the page at PATH, such as /upstreams; / lists the pages. With a VALUE, sends it to the page by PUT, "
          "as in `sluice admin --config sluice.yaml /log-level debug`; several are sent as VALUE&VALUE. The page "
          "`errors` has the last warnings and errors of the log. The page `profile` takes some seconds: it shows where "
          "processor time goes, or with --allocations what takes memory, in the form that flamegraph.pl reads.",
      .options = join(
          {{.name = "--delete", .text = "Remove what is at PATH: an endpoint."},
           {.name = "--allocations", .text = "Let `profile` show the bytes that are allocated in place of time."},
           {.name = "--seconds", .value = "N", .text = "For how long `profile` samples, from 1 to 60. Default: 5."}},
          kAdminOptions),
      .exit_codes = {kExitCodes,
                     {{"0", "The response is printed."},
                      {"1", "There is no response, or its status is not 2xx; then the text is printed all the same."},
                      {"2", "The command line is wrong."}}},
      .max_words = 8,
  });
  commands.push_back({
      .name = "top",
      .summary = "shows the figures of a running process in the terminal",
      .usage = {"--config FILE [OPTIONS]", "--address ADDRESS [OPTIONS]"},
      .text =
          "Requests pages of the admin listener once per second, and shows rates, errors, limits that were met and "
          "endpoints, those that are not up first, until `q` or Ctrl-C ends it. Where standard output is no terminal, "
          "prints them once, with the rates of a second.",
      .options = kAdminOptions,
      .exit_codes = {kExitCodes,
                     {{"0", "It was ended by `q` or Ctrl-C, or has printed the figures."},
                      {"1", "There is no response, or its status is not 2xx."},
                      {"2", "The command line is wrong."}}},
  });
  commands.push_back({
      .name = "explain",
      .summary = "prints how a configuration handles a request",
      .usage = {"--config FILE [OPTIONS] [METHOD] URL", "--against ADDRESS [OPTIONS] [METHOD] URL"},
      .text = "Makes no connections but that to the admin listener. The options from -H to --listener describe a "
              "hypothetical request.",
      .options = join(
          {kConfig,
           {.name = "-H", .value = "'NAME: VALUE'", .text = "A header field. Repeat it for more.", .repeats = true},
           {.name = "--from", .value = "IP", .text = "The client's address. Default: 127.0.0.1."},
           {.name = "--peer",
            .value = "NAME",
            .text = "An authenticated identity of the client. Repeat it for more.",
            .repeats = true},
           {.name = "--listener", .value = "NAME", .text = "The listener. Default: by the URL's scheme and port."}},
          kAgainstOptions),
      .exit_codes = {kExitCodes,
                     {{"0", "The request is explained."},
                      {"1", "The configuration or the request is not valid."},
                      {"2", "The command line is wrong."}}},
      .max_words = 2,
  });
  commands.push_back({
      .name = "convert",
      .summary = "converts a configuration of another proxy",
      .usage = {"--from envoy FILE... [--output FILE] [--strict]", "--from nginx FILE [--output FILE] [--strict]",
                "--from haproxy FILE [--output FILE] [--strict]"},
      .text = "Prints the configuration of Sluice that does the same, and on standard error what has no counterpart: "
              "`refused`, where "
              "something that the files demand is missing, or `ignored`, where the result works without it. Several "
              "files of Envoy are taken "
              "together, as where listeners, routes, clusters and endpoints are in files of their own, or a page of "
              "its /config_dump. Of nginx, FILE is the main one, nginx.conf; those that it includes are read with it. "
              "See docs/guides/from-envoy.md, docs/guides/from-nginx.md and docs/guides/from-haproxy.md.",
      .options = {{.name = "--from",
                   .value = "PROXY",
                   .text = "Whose configuration it is: envoy, nginx or haproxy.",
                   .choices = {"envoy", "nginx", "haproxy"}},
                  {.name = "--output",
                   .value = "FILE",
                   .text = "Where the result goes; default: standard output.",
                   .is_file = true},
                  {.name = "--strict", .text = "Print no configuration if something was refused."}},
      .exit_codes =
          {kExitCodes,
           {{"0", "All is converted, but perhaps for what is `ignored`."},
            {"1",
             "A file cannot be read, or the result is no valid configuration, or with --strict something was refused."},
            {"2", "The command line is wrong."},
            {"3", "The configuration is printed, but something was refused."}}},
      .max_words = 64,
  });
  commands.push_back({
      .name = "schema",
      .summary = "prints the JSON schema of the configuration, for editors",
      .usage = {""},
      .text = "The schema has each key with its type, its default and what it does.",
      .exit_codes = kFailsWith1,
  });
  commands.push_back({
      .name = "completion",
      .summary = "prints a completion script for a shell",
      .usage = {"bash|zsh|fish"},
      .text = "For the current shell: `source <(sluice completion bash)`, the same with zsh, or "
              "`sluice completion fish | source`. Packages install the scripts.",
      .exit_codes = kFailsWith1,
      .max_words = 1,
      .words = {"bash", "zsh", "fish"},
  });
  commands.push_back({
      .name = "manual",
      .summary = "prints the man page",
      .usage = {""},
      .text = "To read it: `sluice manual | man -l -`. Packages install it.",
      .exit_codes = kFailsWith1,
  });
  commands.push_back({
      .name = "version",
      .summary = "prints the version",
      .usage = {""},
      .text = "The same as `sluice --version`.",
      .exit_codes = kFailsWith1,
  });
  commands.push_back({
      .name = "help",
      .summary = "prints an overview, or the page of a command",
      .usage = {"[COMMAND]"},
      .text = "The same as `sluice COMMAND --help`.",
      .exit_codes = kFailsWith1,
      .max_words = 1,
  });
  return commands;
}

const std::vector<Command>& commands_table() {
  static const std::vector<Command> commands = make_commands();
  return commands;
}

}  // namespace

const CommandOption* Command::option(std::string_view wanted) const {
  const auto found =
      std::find_if(options.begin(), options.end(), [&](const CommandOption& each) { return each.name == wanted; });
  return found == options.end() ? nullptr : &*found;
}

std::span<const Command> all_commands() { return commands_table(); }

const Command* find_command(std::string_view name) {
  const std::vector<Command>& commands = commands_table();
  const auto found =
      std::find_if(commands.begin(), commands.end(), [&](const Command& each) { return each.name == name; });
  return found == commands.end() ? nullptr : &*found;
}

std::span<const std::string_view> command_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const Command& command : commands_table()) all.push_back(command.name);
    return all;
  }();
  return names;
}

}  // namespace sluice
