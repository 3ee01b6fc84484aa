#include "proxy/server/server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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
#include "net/listener.h"
#include "proxy/common/cpus.h"
#include "proxy/http/proxy/body_file.h"
#include "proxy/listener/listener_state.h"
#include "proxy/log/run_log.h"
#include "proxy/resolve/resolver.h"
#include "proxy/server/metrics_report.h"
#include "proxy/server/worker_thread.h"
#include "proxy/tls/tls_files.h"
#include "sluice/version.h"

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

// Time for sockets to close after all sessions were ended; then the process exits anyway.
constexpr std::chrono::seconds kShutDownTimeout{5};
constexpr std::chrono::milliseconds kSnapshotTimeout{200};
// Unsent bytes in the kernel toward an HTTP client. Without this bound the kernel accepts up to tcp_wmem, 4 MiB, for
// each client that reads nothing. A thousand such clients keep a worker copying for seconds, and exhaust tcp_mem for
// all connections of the machine.
constexpr uint32_t kUnsentBytes = 128 * 1024;

uint64_t raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// The number of connections for which descriptors are available; each has two sockets. Must be called when the
// listeners are open and the workers have not opened their rings, one descriptor each.
uint32_t descriptor_room(uint64_t descriptors, unsigned workers) {
  uint64_t taken = workers + 2;  // one for the directory iterator, one as a margin
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

ListenOptions listen_options(const config::Listener& listener) {
  const auto seconds = [](config::Duration d) { return static_cast<int>((d.count() + 999) / 1000); };
  return {.backlog = static_cast<int>(listener.backlog),
          .unsent_bytes = listener.http ? kUnsentBytes : 0,
          .nodelay = listener.nodelay,
          .keepalive_idle_s = seconds(listener.keepalive.idle),
          .keepalive_interval_s = seconds(listener.keepalive.interval),
          .keepalive_probes = static_cast<int>(listener.keepalive.probes)};
}

const char* unix_path(const config::Address& address) {
  return reinterpret_cast<const sockaddr_un*>(address.data())->sun_path;
}

// A socket file without a listening process is left over from a process that was killed.
void remove_stale_unix_socket(const config::Address& address) {
  const char* const path = unix_path(address);
  struct stat file;
  if (path[0] == '\0' || stat(path, &file) != 0 || !S_ISSOCK(file.st_mode)) return;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  if (connect(fd, address.data(), address.length()) != 0 && errno == ECONNREFUSED) unlink(path);
  close(fd);
}

// The configured address; if its port is 0, with the port that the kernel chose.
std::string bound_address(const config::Listener& listener, int fd) {
  std::string text = listener.address.text();
  if (listener.address.kind() == config::Address::Kind::kUnix || listener.address.port() != 0) return text;
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length);
  // The port has the same offset for both families.
  const uint16_t port = ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
  return absl::StrCat(text.substr(0, text.rfind(':') + 1), port);
}

// With SO_REUSEPORT two instances would share an address silently, so a plain bind checks for another one first.
absl::Status check_address_is_free(const config::Address& address) {
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "socket");
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family() == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  const int result = bind(fd, address.data(), address.length());
  const int error = errno;
  close(fd);
  return result == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, "bind");
}

absl::Status listen_error(const config::Listener& listener, const absl::Status& error) {
  // Compares the text, because several errnos share a status code.
  const auto is = [&](int number) { return absl::EndsWith(error.message(), std::strerror(number)); };
  const char* hint = "";
  if (is(EADDRINUSE)) hint = "; another process listens there (see `ss -ltnp`)";
  if (is(EADDRNOTAVAIL)) hint = "; no interface of this machine has it (see `ip address`)";
  if (is(EACCES)) hint = "; ports below 1024 need CAP_NET_BIND_SERVICE";
  return absl::Status(error.code(), absl::StrCat("listener \"", listener.name, "\": cannot listen on ",
                                                 listener.address.text(), ": ", error.message(), hint));
}

// Describes the files that a reload has read.
std::string reloaded_files(const config::Config& config) {
  const auto by_files = [](const auto& alts) { return alts && !alts->certificates.empty(); };
  size_t tls_listeners = 0, tls_upstreams = 0, auth_routes = 0;
  for (const config::Listener& listener : config.listeners) {
    tls_listeners += listener.tls || by_files(listener.alts);
    if (!listener.http) continue;
    for (const config::HttpRoute& route : listener.http->routes) auth_routes += route.auth.has_value();
  }
  for (const config::Upstream& upstream : config.upstreams) tls_upstreams += upstream.tls || by_files(upstream.alts);
  std::vector<std::string> read;
  if (tls_listeners > 0) read.push_back(absl::StrCat("the TLS files of ", tls_listeners, " listener(s)"));
  if (tls_upstreams > 0) read.push_back(absl::StrCat("the TLS files of ", tls_upstreams, " upstream(s)"));
  if (auth_routes > 0) read.push_back(absl::StrCat("the `auth` files of ", auth_routes, " route(s)"));
  return read.empty() ? "" : absl::StrCat("read ", absl::StrJoin(read, ", "));
}

void close_all(const std::vector<std::vector<int>>& fds) {
  for (const auto& row : fds) {
    for (int fd : row) close(fd);
  }
}

sigset_t handled_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
  return signals;
}

void log(std::string_view text) { log_line(LogLevel::kInfo, text); }
void warn(std::string_view text) { log_line(LogLevel::kWarning, text); }

}  // namespace

Server::Server(config::Config config, Options options) : config_(std::move(config)), options_(options) {}
Server::~Server() = default;

absl::Status Server::run() {
  // Set before any thread exists, so that all threads inherit it and only the control loop receives signals.
  const sigset_t signals = handled_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  RunLog::process().start();
  const absl::Cleanup stop_log = [] { RunLog::process().stop(); };

  const absl::Status status = start();
  if (!status.ok()) {
    remove_unix_sockets();
    resolver_.reset();
    for (auto& worker : workers_) {
      if (!worker->stopped()) worker->shut_down();
    }
    workers_.clear();
    return status;
  }
  serve();
  resolver_.reset();
  access_logs_->close();
  print_stats();
  workers_.clear();
  return absl::OkStatus();
}

// Must be called while the listeners are open. Then a file with the same device and inode is certainly ours, and not
// that of a process that has taken over the path.
void Server::remove_unix_sockets() {
  for (const UnixSocketFile& ours : unix_sockets_) {
    struct stat file;
    if (stat(ours.path.c_str(), &file) == 0 && file.st_dev == ours.device && file.st_ino == ours.inode) {
      unlink(ours.path.c_str());
    }
  }
  unix_sockets_.clear();
}

absl::Status Server::start() {
  const uint64_t descriptors = raise_descriptor_limit();
  const unsigned worker_count = config_.workers.value_or(usable_cpus());
  log(absl::StrCat("version " SLUICE_VERSION_STRING ", configuration ",
                   options_.config_path.empty() ? "from the command line" : options_.config_path, ", pid ", getpid(),
                   ", workers ", worker_count));

  if (absl::Status posting = Worker::prepare_to_post(); !posting.ok()) return posting;
  auto features = probe_features(static_cast<RingsMode>(config_.memory.rings));
  if (!features.ok()) return features.status();
  features_ = *features;

  for (const config::Upstream& upstream : config_.upstreams) {
    upstreams_.push_back(std::make_unique<UpstreamState>(upstream));
  }
  for (const config::Listener& listener : config_.listeners) {
    listeners_.push_back(std::make_unique<ListenerState>(listener, config_.upstreams));
  }
  for (auto& listener : listeners_) {
    if (absl::Status errors = listener->error_pages.read_files(); !errors.ok()) return errors;
  }
  key_signer_ = std::make_unique<KeySigner>(worker_count);
  tls_shared_.signer = key_signer_.get();
  if (absl::Status read = read_files(); !read.ok()) return read;
  if (absl::Status logs = open_access_logs(worker_count); !logs.ok()) return logs;
  if (absl::Status file = open_body_file(); !file.ok()) return file;
  if (absl::Status resolving = resolve_names(); !resolving.ok()) return resolving;

  auto fds = open_listeners(worker_count);
  if (!fds.ok()) return fds.status();

  const uint32_t room = descriptor_room(descriptors, worker_count);
  const uint32_t max_connections =
      config_.limits.max_connections.value_or(std::min(config::kDefaultMaxConnections, room));
  if (max_connections > room) {
    warn(absl::StrCat("limits.max_connections is ", max_connections, ", but ", descriptors,
                      " file descriptors are enough for ", room, ": accepting pauses there; raise `ulimit -n`"));
  }
  global_connections_ = std::make_unique<ConnectionLimit>(max_connections);

  std::vector<size_t> endpoint_counts;
  for (const config::Upstream& upstream : config_.upstreams) endpoint_counts.push_back(upstream.endpoints.size());
  std::vector<bool> shared_fd;
  for (const config::Listener& listener : config_.listeners) {
    shared_fd.push_back(listener.address.kind() == config::Address::Kind::kUnix && worker_count > 1);
  }
  Worker::Options options;
  options.features = features_;
  options.budget_bytes = config_.memory.worker_budget.bytes;
  options.max_sockets = 2 * size_t{max_connections} / worker_count;
  options.ring_entries = static_cast<uint16_t>(config_.memory.ring_entries);
  options.zero_copy_bytes = config_.memory.zero_copy_from.bytes;
  options.pool_source = options_.pool_source;
  options.read_mode = options_.read_mode;
  for (unsigned i = 0; i < worker_count; ++i) {
    options.index = i;
    counters_.push_back(std::make_unique<WorkerCounters>(config_.listeners.size(), endpoint_counts));
    workers_.push_back(std::make_unique<WorkerThread>(
        options,
        WorkerThread::Shared{config_, *global_connections_, listeners_, upstreams_, *counters_.back(), log_writers(i),
                             room, worker_count, body_file_.get(), &lookup_threads_},
        (*fds)[i], shared_fd));
    const absl::Status ready = workers_.back()->wait_until_ready();
    if (!ready.ok()) {
      for (unsigned rest = i + 1; rest < worker_count; ++rest) {
        for (int fd : (*fds)[rest]) close(fd);
      }
      return ready;
    }
  }
  workers_started_.store(true, std::memory_order_release);
  log(absl::StrCat("io_uring ", features_.to_string(), " rings=", features_.incremental ? "incremental" : "plain",
                   " max_connections=", max_connections));
  for (size_t i = 0; i < config_.listeners.size(); ++i) {
    log(absl::StrCat("listener ", config_.listeners[i].name, " on ",
                     bound_address(config_.listeners[i], (*fds)[0][i])));
  }
  return absl::OkStatus();
}

// One descriptor per worker and listener; a Unix socket is opened once and duplicated.
absl::StatusOr<std::vector<std::vector<int>>> Server::open_listeners(unsigned worker_count) {
  std::vector<std::vector<int>> fds(worker_count);
  for (const config::Listener& listener : config_.listeners) {
    const bool is_unix = listener.address.kind() == config::Address::Kind::kUnix;
    if (is_unix) {
      remove_stale_unix_socket(listener.address);
    } else if (absl::Status free = check_address_is_free(listener.address); !free.ok()) {
      close_all(fds);
      return listen_error(listener, free);
    }
    sockaddr_storage storage{};
    socklen_t length = listener.address.length();
    std::memcpy(&storage, listener.address.data(), length);
    for (unsigned worker = 0; worker < worker_count; ++worker) {
      if (is_unix && worker > 0) {
        fds[worker].push_back(fcntl(fds[0].back(), F_DUPFD_CLOEXEC, 0));
        continue;
      }
      auto fd = open_listener(reinterpret_cast<sockaddr*>(&storage), length, listen_options(listener));
      if (!fd.ok()) {
        close_all(fds);
        return listen_error(listener, fd.status());
      }
      // With port 0, the other workers bind the port that the kernel chose for the first.
      if (worker == 0 && !is_unix) getsockname(*fd, reinterpret_cast<sockaddr*>(&storage), &(length = sizeof storage));
      fds[worker].push_back(*fd);
    }
    struct stat file;
    if (is_unix && unix_path(listener.address)[0] != '\0' && stat(unix_path(listener.address), &file) == 0) {
      unix_sockets_.push_back({unix_path(listener.address), file.st_dev, file.st_ino});
    }
  }
  return fds;
}

absl::Status Server::open_body_file() {
  const auto wants = [](const config::Listener& listener) { return listener.http && keeps_bodies(*listener.http); };
  if (std::none_of(config_.listeners.begin(), config_.listeners.end(), wants)) return absl::OkStatus();
  body_file_ = std::make_unique<BodyFile>(config_.body_file);
  const FilePool& pool = body_file_->pool;
  if (!pool.ok()) return absl::FailedPreconditionError(absl::StrCat("body_file: ", pool.error().message));
  if (pool.in_memory()) {
    warn(
        absl::StrCat("body_file.directory: ", config_.body_file.directory,
                     " is in memory (tmpfs), so buffering bodies there saves no memory; choose a directory on a disk"));
  }
  return absl::OkStatus();
}

bool Server::all_stopped() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->stopped(); });
}

void Server::serve() {
  const sigset_t signals = handled_signals();
  const bool periodic = options_.stats_interval.count() > 0;
  Clock::time_point next_stats = Clock::now() + options_.stats_interval;
  Clock::time_point deadline = Clock::time_point::max();
  enum class Phase { kServing, kDraining, kShuttingDown } phase = Phase::kServing;

  while (!all_stopped()) {
    const auto now = Clock::now();
    if (periodic && now >= next_stats) {
      print_stats();
      next_stats += options_.stats_interval;
    }
    if (now >= deadline) {
      if (phase == Phase::kShuttingDown) {
        // No session should need more time. If one does, exiting is better than hanging.
        log_line(LogLevel::kError, "sessions did not end in time; exiting anyway");
        RunLog::process().stop();
        std::_Exit(1);
      }
      warn("shutdown_timeout is over: ending the remaining sessions");
      phase = Phase::kShuttingDown;
      deadline = now + kShutDownTimeout;
      for (auto& worker : workers_) worker->shut_down();
    }
    // While serving, wake up only for signals and statistics; while draining, poll often.
    const auto pause = phase == Phase::kServing ? (periodic ? next_stats - now : Clock::duration(std::chrono::hours(1)))
                                                : Clock::duration(std::chrono::milliseconds(20));
    const auto ns = std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::nanoseconds>(pause).count());
    const timespec timeout{ns / 1'000'000'000, ns % 1'000'000'000};
    const int received = sigtimedwait(&signals, nullptr, &timeout);
    if (received < 0) continue;
    if (received == SIGHUP) {
      reload();
    } else if (received == SIGUSR1) {
      reopen_access_logs();
    } else if (received == SIGUSR2) {
      print_stats();
    } else if (phase == Phase::kServing) {
      log(absl::StrCat("draining: no new connections; ", global_connections_->active(), " open, up to ",
                       config::print_duration(config_.shutdown_timeout), " to end; a second signal ends them now"));
      phase = Phase::kDraining;
      deadline = Clock::now() + config_.shutdown_timeout;
      remove_unix_sockets();
      for (auto& worker : workers_) worker->drain();
    } else if (phase == Phase::kDraining) {
      deadline = Clock::now();
    }
  }
}

// Replaces either all files or none. Existing connections keep the TLS context that they started with.
absl::Status Server::read_files() {
  auto contexts = read_tls_files(config_, tls_shared_);
  if (!contexts.ok()) return contexts.status();
  for (const FileWarning& warning : contexts->warnings) warn(warning.text);
  std::vector<ListenerAuthFiles> auth;
  for (const config::Listener& listener : config_.listeners) {
    auto files = read_auth_files(listener);
    if (!files.ok()) return files.status();
    auth.push_back(*std::move(files));
  }
  for (size_t i = 0; i < listeners_.size(); ++i) {
    listeners_[i]->tls.replace(std::move(contexts->listeners[i]));
    listeners_[i]->auth.replace(std::move(auth[i]));
  }
  for (size_t i = 0; i < upstreams_.size(); ++i) upstreams_[i]->tls.replace(std::move(contexts->upstreams[i]));
  return absl::OkStatus();
}

// Waits for the first lookups, so that their results are available to the first requests.
absl::Status Server::resolve_names() {
  if (!Resolver::has_names(config_)) return absl::OkStatus();
  resolver_ = std::make_unique<Resolver>(upstreams_, [this] {
    // If posting is not possible, workers notice the change when they next choose an endpoint.
    if (!Worker::prepare_to_post().ok() || !workers_started_.load(std::memory_order_acquire)) return;
    for (auto& worker : workers_) worker->follow_endpoints();
  });
  if (absl::Status started = resolver_->start(); !started.ok()) return started;
  resolver_->wait_for_first();
  return absl::OkStatus();
}

absl::Status Server::open_access_logs(unsigned workers) {
  std::vector<std::string> targets;
  for (const config::Listener& listener : config_.listeners) {
    std::optional<size_t>& log = access_log_of_listener_.emplace_back();
    if (!listener.http || !listener.http->access_log) continue;
    log = targets.size();
    targets.push_back(listener.http->access_log->file);
  }
  auto logs = AccessLogs::open(targets, workers);
  if (!logs.ok()) return logs.status();
  access_logs_ = std::move(*logs);
  return absl::OkStatus();
}

std::vector<AccessLogWriter*> Server::log_writers(unsigned worker) {
  std::vector<AccessLogWriter*> writers;
  for (const std::optional<size_t> log : access_log_of_listener_) {
    writers.push_back(log ? &access_logs_->writer(*log, worker) : nullptr);
  }
  return writers;
}

void Server::reopen_access_logs() {
  const absl::Status opened = access_logs_->reopen();
  if (opened.ok()) return log("access logs reopened");
  log_lines(LogLevel::kError,
            absl::StrCat("access logs: ", opened.message(), "; such a log goes on in the file that is open"));
}

void Server::reload() {
  if (const absl::Status read = read_files(); !read.ok()) {
    control_counters_.tls_reload_failures.add();
    return log_lines(LogLevel::kError,
                     absl::StrCat("reload: ", read.message(), "; the previously loaded files stay in use"));
  }
  control_counters_.tls_reloads.add();
  const std::string files = reloaded_files(config_);
  log(absl::StrCat("reload: ", files.empty() ? "the configuration names no files to reload" : files,
                   "; the configuration itself is read at start only: restart for changes of it"));
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
  std::string text = format_stats(config_, control_counters_, counters_, upstreams_);
  for (size_t i = 0; i < access_log_of_listener_.size(); ++i) {
    if (const std::optional<size_t> target = access_log_of_listener_[i]) {
      text += format_access_log(config_.listeners[i], access_logs_->written(*target), access_logs_->dropped(*target),
                                access_logs_->errors(*target));
    }
  }
  if (body_file_) text += format_body_file(body_file_->pool.stats());
  RunLog& run_log = RunLog::process();
  text += format_run_log(run_log.lines_dropped(), run_log.prints_dropped(), log_lines_suppressed());
  // As in OpenMetrics, so that a reader of a pipe knows where the output ends.
  text += "# EOF\n";
  run_log.print(text);
}

}  // namespace sluice
