#include "proxy/server/server.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "net/listener.h"
#include "proxy/common/cpus.h"
#include "proxy/config/load/print.h"
#include "proxy/http/proxy/body_file.h"
#include "proxy/listener/listener_state.h"
#include "proxy/listener/moving_session.h"
#include "proxy/log/run_log.h"
#include "proxy/resolve/resolver.h"
#include "proxy/server/privileges.h"
#include "proxy/server/process_report.h"
#include "proxy/server/reload_words.h"
#include "proxy/server/worker_thread.h"
#include "proxy/tls/tls_files.h"
#include "sluice/version.h"

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSnapshotTimeout{200};
// Interval at which it is checked whether earlier generations are still in use.
constexpr std::chrono::milliseconds kUnusedPoll{500};
// A change of watched files is applied when they have not changed for kSettle, or after kMaxSettle.
constexpr std::chrono::milliseconds kSettle{300};
constexpr std::chrono::seconds kMaxSettle{5};
void log(std::string_view text) { log_line(LogLevel::kInfo, text); }
void warn(std::string_view text) { log_line(LogLevel::kWarning, text); }

uint64_t raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// The number of connections for which descriptors are available; each has two sockets. Must be called when the
// listeners are open. `others`: descriptors that will be opened, such as a ring for each worker.
uint32_t descriptor_room(uint64_t descriptors, uint64_t others) {
  uint64_t taken = others + 2;  // one for the directory iterator, one as a margin
  // Without /proc (a bare chroot), probe low descriptors: at start-up few are open.
  constexpr int kLowDescriptors = 4096;
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error); !error && at != end; at.increment(error))
    ++taken;
  if (error) {
    for (int fd = 0; fd < kLowDescriptors; ++fd) taken += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  }
  return descriptors > taken ? static_cast<uint32_t>(std::min<uint64_t>((descriptors - taken) / 2, UINT32_MAX)) : 1;
}

void close_descriptors(const std::vector<WorkerGeneration>& parts, size_t from) {
  for (size_t i = from; i < parts.size(); ++i) {
    for (const auto& sockets : parts[i].sockets) {
      for (const ListenSocket& each : sockets) close(each.fd);
    }
  }
}

// Whether a name has no address yet.
bool lacks_addresses(const Generation& generation) {
  for (const auto& upstream : generation.upstreams) {
    for (uint32_t i = 0; i < upstream->config().endpoints.size(); ++i) {
      if (upstream->config().endpoints[i].is_resolved() && upstream->slots().present_of(i).empty()) return true;
    }
  }
  return false;
}

sigset_t handled_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

Server::Server(config::Snapshot<config::Config> config, Options options)
    : options_(std::move(options)),
      worker_count_(config->workers.value_or(usable_cpus())),
      generation_(std::move(config), worker_count_),
      sockets_(worker_count_) {}
Server::~Server() = default;

absl::Status Server::run() {
  forbid_new_privileges();
  limit_core_dumps(*generation_.config);
  if (absl::Status status = begin_sandbox(); !status.ok()) return status;
  // Set before any thread exists, so that all threads inherit it and only the control loop receives signals.
  const sigset_t signals = handled_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd_ < 0) return absl::ErrnoToStatus(errno, "signalfd");
  const absl::Cleanup close_signals = [this] { close(signal_fd_); };
  absl::StatusOr<std::vector<int>> passed = take_passed_sockets();  // Before there are other threads.
  if (!passed.ok()) return passed.status();
  if (absl::Status inherited = sockets_.inherit_passed(*passed); !inherited.ok()) return inherited;
  RunLog::process().start();
  const absl::Cleanup stop_log = [] { RunLog::process().stop(); };
  manager_ = ServiceManager::from_environment();
  watchdog_ = Watchdog::from_environment();

  absl::StatusOr<std::unique_ptr<Predecessor>> predecessor = Predecessor::find();
  if (!predecessor.ok()) return predecessor.status();
  if (*predecessor) predecessors_.push_back(*std::move(predecessor));
  const absl::Status status = start();
  if (!status.ok()) {
    if (!predecessors_.empty()) predecessors_[0]->report_failure(status.message());
    for (ListenSockets* const each : {&sockets_, &admin_sockets_})
      predecessors_.empty() ? each->close() : each->leave();
    admin_.reset();
    resolver_.reset();
    memory_watch_.reset();
    for (auto& worker : workers_) {
      if (!worker->stopped()) worker->shut_down();
    }
    workers_.clear();
    // The caller prints it on standard error.
    if (generation_.config->log.to != config::LogTarget()) log_lines(LogLevel::kError, status.message());
    return status;
  }
  serve();
  admin_.reset();
  admin_sockets_.close();
  log_resets();
  resolver_.reset();
  memory_watch_.reset();
  access_logs_->close();
  print_stats();
  workers_.clear();
  return absl::OkStatus();
}

absl::Status Server::start() {
  const uint64_t descriptors = raise_descriptor_limit();
  const config::Config& config = *generation_.config;
  ProcessIds ids;
  if (config.user.is_set()) {
    absl::StatusOr<ProcessIds> found = find_process_ids(config.user);
    if (!found.ok()) return absl::Status(found.status().code(), absl::StrCat("user: ", found.status().message()));
    ids = *std::move(found);
    make_log_files(config, ids);
  }
  std::unique_ptr<LogSink> sink;
  if (config.log.to != config::LogTarget()) {
    absl::StatusOr<std::unique_ptr<LogSink>> opened = LogSink::open(config.log.to.destination());
    if (!opened.ok()) return opened.status();
    sink = *std::move(opened);
  }
  RunLog::process().configure(config.log.level, config.log.format, std::move(sink));
  log(absl::StrCat("version " SLUICE_VERSION_STRING ", configuration ",
                   options_.config_path.empty() ? "from the command line" : options_.config_path, ", pid ", getpid(),
                   ", workers ", worker_count_));

  if (absl::Status memory = make_common_budget(config.memory); !memory.ok()) return memory;
  if (absl::Status posting = Worker::prepare_to_post(); !posting.ok()) return posting;
  auto features = probe_features(static_cast<RingsMode>(config.memory.rings));
  if (!features.ok()) return features.status();
  features_ = *features;

  key_signer_ = std::make_unique<KeySigner>(worker_count_);
  tls_shared_.signer = key_signer_.get();
  auto logs = AccessLogs::open({}, worker_count_);
  if (!logs.ok()) return logs.status();
  access_logs_ = std::move(*logs);
  absl::StatusOr<Preparation> prepared = prepare(generation_);
  if (!prepared.ok()) return prepared.status();
  if (absl::Status resolving = resolve_names(generation_); !resolving.ok()) return resolving;
  const bool is_upgrade = !predecessors_.empty();
  if (is_upgrade) {
    std::vector<std::unique_ptr<Predecessor>> earlier;
    const auto inherits = [this](const HandedSocket& socket) { return inherit(socket); };
    if (absl::Status taken = predecessors_[0]->take_over(inherits, *tls_shared_.ticket_keys, earlier); !taken.ok())
      return taken;
    for (auto& each : earlier) predecessors_.push_back(std::move(each));
  }
  if (absl::Status listening = sockets_.open(config); !listening.ok()) return listening;
  sockets_.keep_only(config);  // Of those that were inherited.
  absl::StatusOr<AdminPreparation> admin = prepare_admin(config);
  if (!admin.ok()) return admin.status();
  absl::StatusOr<std::vector<WorkerGeneration>> parts = for_workers(generation_, nullptr, *prepared);
  if (!parts.ok()) return parts.status();
  install(generation_, *std::move(prepared));
  applied_ = begin_generation(generation_.config);
  if (config.user.is_set()) {
    if (absl::Status changed = change_user(ids); !changed.ok()) {
      close_descriptors(*parts, 0);
      return changed;
    }
  }

  watch_memory();
  const uint32_t admin_connections = config.admin ? config.admin->max_connections + AdminServer::kClosing : 0;
  descriptor_room_ = descriptor_room(descriptors, worker_count_ + admin_connections + MemoryWatch::kDescriptors);
  if (max_connections() > descriptor_room_) {
    warn(absl::StrCat("limits.max_connections is ", max_connections(), ", but ", descriptors,
                      " file descriptors are enough for ", descriptor_room_,
                      ": accepting pauses there; raise `ulimit -n`"));
  }
  global_connections_.set_limit(max_connections());

  Worker::Options options;
  options.features = features_;
  options.budget_bytes = config.memory.worker_budget.bytes;
  options.kept_bytes = config.memory.kept_bytes();
  options.common_budget = common_budget_.get();
  options.max_sockets = 2 * size_t{max_connections()} / worker_count_;
  options.ring_entries = static_cast<uint16_t>(config.memory.ring_entries);
  options.zero_copy_bytes = config.memory.zero_copy_from.bytes;
  options.pool_source = options_.pool_source;
  options.read_mode = options_.read_mode;
  for (unsigned i = 0; i < worker_count_; ++i) {
    options.index = i;
    workers_.push_back(
        std::make_unique<WorkerThread>(options,
                                       WorkerThread::Shared{global_connections_, descriptor_room_, worker_count_,
                                                            body_file_.get(), &lookup_threads_, &stopping_, overload_},
                                       std::move((*parts)[i])));
    const absl::Status ready = workers_.back()->wait_until_ready();
    if (!ready.ok()) {
      close_descriptors(*parts, i + 1);
      return ready;
    }
  }
  workers_started_.store(true, std::memory_order_release);
  memory_watch_->start();
  if (auto control = ControlSocket::open(); control.ok()) {
    control_ = *std::move(control);
  } else {
    warn(absl::StrCat(control.status().message(), ": `sluice reload` is not available; SIGHUP is"));
  }
  control_counters_.configurations.set(1);
  watch_files();
  log(absl::StrCat("io_uring ", features_.to_string(), " rings=", features_.incremental ? "incremental" : "plain",
                   " max_connections=", max_connections()));
  log_listeners(nullptr);
  apply_admin(*std::move(admin), nullptr);
  if (absl::Status status = complete_sandbox(); !status.ok()) return status;
  if (is_upgrade) predecessors_[0]->report_ready();
  return absl::OkStatus();
}

// `before`: the previous configuration, whose listeners are left out if they are at the same addresses.
void Server::log_listeners(const config::Config* before) const {
  const config::ListenAddresses addresses(*generation_.config);
  std::optional<config::ListenAddresses> were;
  if (before) were.emplace(*before);
  for (const config::Listener& listener : generation_.config->listeners) {
    const std::vector<config::ListenAddress> now = addresses.of(listener);
    const auto same = [&](const config::Listener& was) { return was.name == listener.name && were->of(was) == now; };
    if (before && std::any_of(before->listeners.begin(), before->listeners.end(), same)) continue;
    for (const std::string& address : sockets_.bound_addresses(listener, now)) {
      log_line(LogLevel::kInfo, absl::StrCat("listener ", listener.name, " on ", address), {.listener = listener.name});
    }
  }
}

uint32_t Server::max_connections() const {
  return generation_.config->limits.max_connections.value_or(
      std::min(config::kDefaultMaxConnections, descriptor_room_));
}

// Reads and opens all that a generation needs, apart from its sockets. Nothing takes effect yet.
absl::StatusOr<Server::Preparation> Server::prepare(const Generation& generation) {
  const config::Config& config = *generation.config;
  Preparation prepared;
  for (const auto& listener : generation.listeners) {
    if (workers_started_ && generation_.has(*listener)) continue;  // In use, so they are read.
    if (absl::Status errors = listener->error_pages.read_files(); !errors.ok()) return errors;
  }
  auto contexts = read_tls_files(config, tls_shared_);
  if (!contexts.ok()) return contexts.status();
  for (const FileWarning& warning : contexts->warnings) warn(warning.text);
  prepared.tls = *std::move(contexts);
  for (const config::Listener& listener : config.listeners) {
    auto files = read_auth_files(listener);
    if (!files.ok()) return files.status();
    prepared.auth.push_back(*std::move(files));
  }
  std::vector<std::string> targets;
  for (const config::Listener& listener : config.listeners) {
    if (const config::AccessLog* const log = listener.access_log(); log && !config::names_otlp(log->file)) {
      targets.push_back(log->file);
    }
  }
  const auto logs = access_logs_->add(targets);
  if (!logs.ok()) return logs.status();
  size_t next_log = 0;
  for (const config::Listener& listener : config.listeners) {
    std::optional<size_t>& log = prepared.access_logs.emplace_back();
    const config::AccessLog* const configured = listener.access_log();
    if (configured && !config::names_otlp(configured->file)) log = (*logs)[next_log++];
  }
  if (config.log.to != generation_.config->log.to) {
    auto sink = LogSink::open(config.log.to.destination());
    if (!sink.ok()) return sink.status();
    prepared.log = *std::move(sink);
  }
  if (absl::Status file = open_body_file(config); !file.ok()) return file;
  return prepared;
}

// Existing connections keep the TLS context that they started with.
void Server::install(const Generation& generation, Preparation prepared) {
  for (size_t i = 0; i < generation.listeners.size(); ++i) {
    ListenerState& listener = *generation.listeners[i];
    listener.tls.replace(std::move(prepared.tls.listeners[i]));
    listener.auth.replace(std::move(prepared.auth[i]));
    listener.limits->set(*listener.config);
  }
  for (size_t i = 0; i < generation.upstreams.size(); ++i) {
    generation.upstreams[i]->tls.replace(std::move(prepared.tls.upstreams[i]));
  }
  access_log_of_listener_ = std::move(prepared.access_logs);
  const config::Log& log_now = generation.config->log;
  if (log_now == generation_.config->log) return;
  if (prepared.log) log(absl::StrCat("the log continues in ", log_now.to.text()));
  RunLog::process().configure(log_now.level, log_now.format, std::move(prepared.log));
}

// `before`: the generation that the workers have; null if they have none.
absl::StatusOr<std::vector<WorkerGeneration>> Server::for_workers(const Generation& next, const Generation* before,
                                                                  const Preparation& prepared) {
  std::vector<WorkerGeneration> parts;
  const config::ListenAddresses addresses(*next.config);
  for (unsigned worker = 0; worker < worker_count_; ++worker) {
    WorkerGeneration& part = parts.emplace_back(next, worker);
    for (size_t i = 0; i < next.listeners.size(); ++i) {
      const config::Listener& listener = *next.listeners[i]->config;
      const std::optional<size_t>& log = prepared.access_logs[i];
      part.access_logs.push_back(log ? &access_logs_->writer(*log, worker) : nullptr);
      std::vector<ListenSocket>& sockets = part.sockets.emplace_back();
      if (before && before->has(*next.listeners[i])) continue;
      if (next.groups->role(i) == config::AddressGroups::Role::kShares) continue;
      auto copies = sockets_.duplicate(listener, addresses.of(listener), worker);
      if (!copies.ok()) {
        close_descriptors(parts, 0);
        return copies.status();
      }
      sockets = *std::move(copies);
    }
  }
  return parts;
}

absl::Status Server::open_body_file(const config::Config& config) {
  const auto wants = [](const config::Listener& listener) { return listener.http && keeps_bodies(*listener.http); };
  if (body_file_ || std::none_of(config.listeners.begin(), config.listeners.end(), wants)) return absl::OkStatus();
  auto file = std::make_unique<BodyFile>(config.body_file);
  const FilePool& pool = file->pool;
  if (!pool.ok()) return absl::FailedPreconditionError(absl::StrCat("body_file: ", pool.error().message));
  if (pool.in_memory()) {
    warn(
        absl::StrCat("body_file.directory: ", config.body_file.directory,
                     " is in memory (tmpfs), so buffering bodies there saves no memory; choose a directory on a disk"));
  }
  body_file_ = std::move(file);
  return absl::OkStatus();
}

// A single worker without more to borrow than it has needs none.
absl::Status Server::make_common_budget(const config::Memory& memory) {
  const uint64_t guaranteed = memory.worker_budget.bytes * worker_count_, all = memory.budget_of(worker_count_);
  if (all < guaranteed) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory.budget: ", config::print_size(memory.budget), " is less than memory.worker_budget, ",
                     config::print_size(memory.worker_budget), ", of ", worker_count_, " workers; expected ",
                     config::print_size({guaranteed}), " or more, or a smaller memory.worker_budget"));
  }
  const bool lends = worker_count_ > 1 && memory.kept_bytes() < memory.worker_budget.bytes;
  if (lends || all > guaranteed) {
    common_budget_ = std::make_unique<Budget>(all - memory.kept_bytes() * worker_count_);
  }
  return absl::OkStatus();
}

void Server::watch_memory() {
  const auto changed = [this] {
    if (!Worker::prepare_to_post().ok()) return;  // Until there is a descriptor again.
    for (auto& worker : workers_) worker->follow_memory();
  };
  const config::Config& config = *generation_.config;
  memory_watch_ = std::make_unique<MemoryWatch>(overload_, changed);
  memory_watch_->configure(config.overload, config.memory.budget_of(worker_count_));
}

bool Server::all_stopped() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->stopped(); });
}

// Waits for a signal and returns it; -1 if none arrived. Commands that arrive meanwhile are obeyed.
int Server::wait(std::chrono::nanoseconds pause) {
  const bool moving_out = phase_ == Phase::kMovingOut;
  std::vector<pollfd> polled = {{signal_fd_, POLLIN, 0},
                                {control_ ? control_->fd() : -1, POLLIN, 0},
                                {watch_ ? watch_->fd() : -1, POLLIN, 0},
                                {moving_out ? successor_->channel_fd() : -1, POLLIN, 0},
                                {moving_out ? successor_->departures_fd() : -1, POLLIN, 0},
                                {options_.feed ? options_.feed->fd() : -1, POLLIN, 0}};
  const size_t first_predecessor = polled.size();
  // A successor continues with them.
  for (auto& predecessor : predecessors_) polled.push_back({successor_ ? -1 : predecessor->fd(), POLLIN, 0});
  const int64_t ns = pause.count();
  const timespec timeout{ns / 1'000'000'000, ns % 1'000'000'000};
  if (ppoll(polled.data(), polled.size(), &timeout, nullptr) <= 0) return -1;
  if (polled[1].revents & POLLIN) control_->serve([this](std::string_view command) { return obey(command); });
  if ((polled[2].revents & POLLIN) && watch_ && watch_->take()) {
    const Clock::time_point now = Clock::now();
    if (settled_ == Clock::time_point::max()) changed_ = now;
    settled_ = std::min(now + kSettle, changed_ + kMaxSettle);
  }
  if (polled[3].revents || polled[4].revents) exchange_with_successor();
  if (polled[5].revents & POLLIN) options_.feed->settle(reload().status());
  for (size_t i = polled.size(); i-- > first_predecessor && !successor_;) {
    const auto predecessor = predecessors_.begin() + static_cast<std::ptrdiff_t>(i - first_predecessor);
    if (polled[i].revents && !exchange_with(**predecessor)) predecessors_.erase(predecessor);
  }
  signalfd_siginfo received;
  if (!(polled[0].revents & POLLIN) || read(signal_fd_, &received, sizeof received) != sizeof received) return -1;
  return static_cast<int>(received.ssi_signo);
}

void Server::serve() {
  const bool periodic = options_.stats_interval.count() > 0;
  Clock::time_point next_stats = Clock::now() + options_.stats_interval;

  manager_.ready(status_line());
  while (!all_stopped()) {
    const auto now = Clock::now();
    destroy_unused();
    end_overdue(now);
    if (std::exchange(shown_phase_, phase_) != phase_) publish_view();
    if (watchdog_.is_due(now)) feed_watchdog();
    if (now >= settled_) {
      settled_ = Clock::time_point::max();
      if (phase_ == Phase::kServing) (void)reload();
    }
    if (periodic && now >= next_stats) {
      print_stats();
      next_stats += options_.stats_interval;
    }
    if (phase_ == Phase::kMovingOut && has_moved_out()) {
      log(absl::StrCat("upgrade: all connections have moved or ended; process ", successor_->pid(), " continues"));
      leave_to_successor();
    }
    if (now >= deadline_) end_phase();
    // While serving, wake up for signals, statistics, and the end of earlier generations; while draining, poll often.
    Clock::duration pause = retired_.empty() ? Clock::duration(std::chrono::hours(1)) : kUnusedPoll;
    if (periodic) pause = std::min(pause, next_stats - now);
    if (settled_ != Clock::time_point::max()) pause = std::min(pause, settled_ - now);
    for (const Retired& each : retired_) {
      if (each.end_at != Clock::time_point::max()) pause = std::min(pause, each.end_at - now);
    }
    if (watchdog_.is_on()) pause = std::min<Clock::duration>(pause, watchdog_.next() - now);
    if (phase_ != Phase::kServing) pause = std::chrono::milliseconds(20);
    const int received = wait(std::max<Clock::duration>(pause, Clock::duration(0)));
    if (received < 0) continue;
    if (received == SIGHUP) {
      (void)reload();
    } else if (received == SIGUSR1) {
      reopen_logs();
    } else if (received == SIGUSR2) {
      print_stats();
    } else if (phase_ == Phase::kServing) {
      stopping_ = true;  // Before the line that says so.
      const config::Duration delay = generation_.config->shutdown_delay;
      if (delay.count() > 0) {
        log(absl::StrCat("stopping: not ready any more; new connections are accepted for another ",
                         config::print_duration(delay), "; a second signal skips that"));
      }
      phase_ = Phase::kDelaying;
      deadline_ = Clock::now() + delay;
    } else if (phase_ != Phase::kShuttingDown) {
      deadline_ = Clock::now();  // The present phase ends.
    }
  }
}

void Server::feed_watchdog() {
  std::vector<Watchdog::Progress> progress;
  for (const auto& worker : workers_) progress.push_back({worker->snapshots(), worker->stopped()});
  if (watchdog_.feeds(Clock::now(), progress)) {
    manager_.feed_watchdog();
  } else {
    log_line(LogLevel::kError, "a worker makes no progress: the watchdog of the service manager is not fed");
  }
  for (auto& worker : workers_) worker->request_snapshot();
}

// What the service manager shows.
std::string Server::status_line() const {
  return absl::StrCat("serving: ", generation_.config->listeners.size(), " listeners, ", worker_count_, " workers");
}

// Waits for the first lookups of new names, so that their results are available to the first requests.
absl::Status Server::resolve_names(const Generation& generation) {
  resolver_.reset();  // Only one resolver may change the endpoints of an upstream.
  if (!Resolver::has_names(*generation.config)) return absl::OkStatus();
  resolver_ = std::make_unique<Resolver>(generation.upstreams, [this] {
    // If posting is not possible, workers notice the change when they next choose an endpoint.
    if (!Worker::prepare_to_post().ok() || !workers_started_.load(std::memory_order_acquire)) return;
    for (auto& worker : workers_) worker->follow_endpoints();
  });
  const bool waits = lacks_addresses(generation);
  if (absl::Status started = resolver_->start(); !started.ok()) return started;
  if (waits) resolver_->wait_for_first();
  return absl::OkStatus();
}

void Server::reopen_logs() {
  const absl::Status run_log = RunLog::process().reopen(), access_logs = access_logs_->reopen();
  if (run_log.ok() && access_logs.ok()) return log("log and access logs reopened");
  for (const absl::Status& status : {run_log, access_logs}) {
    if (status.ok()) continue;
    log_lines(LogLevel::kError, absl::StrCat(status.message(), "; such a log goes on in the file that is open"));
  }
}

absl::StatusOr<std::string> Server::obey(std::string_view command) {
  if (command == "reload") return reload();
  if (command == "upgrade") return upgrade({});
  if (absl::ConsumePrefix(&command, "upgrade ")) return upgrade(command);
  if (command == "config") return config::print_config(*generation_.config);
  return absl::InvalidArgumentError(absl::StrCat("unknown command \"", command, "\""));
}

void Server::print_stats() {
  std::vector<uint64_t> before;
  for (auto& worker : workers_) {
    before.push_back(worker->snapshots());
    worker->request_snapshot();
  }
  const auto deadline = Clock::now() + kSnapshotTimeout;
  for (size_t i = 0; i < workers_.size(); ++i) {
    while (!workers_[i]->stopped() && workers_[i]->snapshots() == before[i] && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::string text = format_counters(view(), control_counters_);
  if (generation_.config->admin) text += format_admin(admin_counters_);
  // As in OpenMetrics, so that a reader of a pipe knows where the output ends.
  text += "# EOF\n";
  RunLog::process().print(text);
}

}  // namespace sluice
