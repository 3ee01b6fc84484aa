// The upgrade of a running process: the side of the old process, and that of the new one.

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/config/load/print.h"
#include "proxy/listener/moving_session.h"
#include "proxy/log/run_log.h"
#include "proxy/resolve/resolver.h"
#include "proxy/server/server.h"
#include "proxy/server/worker_thread.h"

namespace sluice {

namespace {

// A command to upgrade waits for the sessions that move at once: until none has for kNoMoves, but no longer than
// kFirstMoves.
constexpr std::chrono::milliseconds kNoMoves{200};
constexpr std::chrono::seconds kFirstMoves{5};

std::vector<std::string> own_command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string each; std::getline(file, each, '\0');) arguments.push_back(each);
  return arguments;
}

}  // namespace

// Starts `binary`, or this program's file if it is empty, in place of this process. Returns what has moved so far.
absl::StatusOr<std::string> Server::upgrade(std::string_view binary) {
  if (phase_ != Phase::kServing) {
    return absl::FailedPreconditionError(phase_ == Phase::kMovingOut ? "an upgrade is already under way"
                                                                     : "the process is draining");
  }
  if (generation_.config->sandbox) {
    return absl::FailedPreconditionError("a process with `sandbox` starts no programs: stop it, and start the new one");
  }
  const std::vector<std::string> command_line = own_command_line();
  if (command_line.empty()) return absl::FailedPreconditionError("the command line is not known, without /proc");
  std::error_code error;
  std::string program(binary);
  if (program.empty()) {
    program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    // A package manager replaces the file, so the running one has no name any more.
    program = absl::StripSuffix(program, " (deleted)");
  }
  log_line(LogLevel::kInfo, absl::StrCat("upgrade: starting ", program));
  std::vector<int> earlier;
  for (auto& predecessor : predecessors_) earlier.push_back(predecessor->fd());
  absl::StatusOr<std::unique_ptr<Successor>> started =
      Successor::start({program, command_line}, sockets_to_hand_over(), *tls_shared_.ticket_keys, earlier, [this] {
        if (watchdog_.is_due(std::chrono::steady_clock::now())) feed_watchdog();
      });
  if (!started.ok()) {
    control_counters_.upgrade_failures.add();
    const std::string why = absl::StrCat(started.status().message(), "\nnothing was changed: this process goes on");
    log_lines(LogLevel::kError, absl::StrCat("upgrade: ", why));
    return absl::Status(started.status().code(), why);
  }
  control_counters_.upgrades.add();
  successor_ = *std::move(started);
  const uint32_t open = global_connections_.active();
  log_line(LogLevel::kInfo, absl::StrCat("upgrade: process ", successor_->pid(), " accepts connections; moving ", open,
                                         " connections to it, those that cannot move have up to ",
                                         config::print_duration(generation_.config->shutdown_timeout), " to end"));
  phase_ = Phase::kMovingOut;
  deadline_ = std::chrono::steady_clock::now() + generation_.config->shutdown_timeout;
  std::vector<std::future<void>> left;
  for (auto& worker : workers_) {
    left.push_back(worker->begin_moving_out(*successor_, generation_.config->shutdown_timeout / 2));
  }
  if (admin_) admin_->leave();
  // So that no connection arrives after the last one has moved.
  for (std::future<void>& each : left) each.wait();
  // Most connections have moved when none has for a while.
  const auto limit = std::chrono::steady_clock::now() + kFirstMoves;
  for (auto last = std::chrono::steady_clock::now();
       std::chrono::steady_clock::now() < std::min(limit, last + kNoMoves);) {
    const uint64_t before = successor_->sessions_taken();
    pollfd polled[] = {{successor_->channel_fd(), POLLIN, 0}, {successor_->departures_fd(), POLLIN, 0}};
    (void)poll(polled, std::size(polled), 10);
    exchange_with_successor();
    if (phase_ != Phase::kMovingOut)
      return absl::UnavailableError("the new process has ended; this process serves again");
    if (successor_->sessions_taken() != before || !successor_->idle()) last = std::chrono::steady_clock::now();
    if (has_moved_out()) break;
  }
  const std::string done =
      absl::StrCat("process ", successor_->pid(), " has taken over: ", successor_->sessions_taken(),
                   " connections moved, ", global_connections_.active(), " still end or move here", print_stays());
  log_line(LogLevel::kInfo, absl::StrCat("upgrade: ", done));
  return done;
}

// " (3 handshake, 9 request)", or nothing.
std::string Server::print_stays() {
  StayCounts sum{};
  std::vector<std::future<StayCounts>> counted;
  for (auto& worker : workers_) counted.push_back(worker->count_stays());
  for (std::future<StayCounts>& each : counted) {
    const StayCounts counts = each.get();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += counts[i];
  }
  std::string text;
  for (size_t i = 0; i < sum.size(); ++i) {
    if (sum[i] == 0) continue;
    absl::StrAppend(&text, text.empty() ? " (" : ", ", sum[i], " ", stay_reason_name(static_cast<StayReason>(i)));
  }
  return text.empty() ? text : absl::StrCat(text, ")");
}

// Whether the successor has all connections, or those that it has not have ended.
bool Server::has_moved_out() const {
  return successor_->idle() &&
         std::ranges::none_of(workers_, [](const auto& each) { return each->awaits_session(); }) &&
         global_connections_.active() == 0;
}

void Server::exchange_with_successor() {
  const Successor::State state = successor_->exchange(
      [this](unsigned worker, MovingSession session) { keep_session(worker, std::move(session)); });
  if (phase_ != Phase::kMovingOut || state == Successor::State::kServing) return;
  if (state == Successor::State::kLost) return serve_again();
  log_line(LogLevel::kInfo, absl::StrCat("upgrade: process ", successor_->pid(), " shuts down"));
  leave_to_successor();
}

// It has the sockets. What has not moved ends here. From now on, its death is the death of the service.
void Server::leave_to_successor() {
  manager_.main_pid(successor_->pid());
  stop_moving_out(/*accepts=*/false);
  sockets_.leave();
  admin_sockets_.leave();
  phase_ = Phase::kDraining;
  for (auto& worker : workers_) (void)worker->drain();
}

// Sessions that were under way continue here.
void Server::stop_moving_out(bool accepts) {
  std::vector<std::future<void>> ended;
  for (auto& worker : workers_) ended.push_back(worker->end_moving_out(accepts));
  for (std::future<void>& each : ended) each.wait();
  (void)successor_->exchange(
      [this](unsigned worker, MovingSession session) { keep_session(worker, std::move(session)); });
}

// It does not move, so it ends here.
void Server::keep_session(unsigned worker, MovingSession session) {
  workers_[worker]->resume(std::move(session), /*stays=*/true);
}

// The successor is gone before this process was.
void Server::serve_again() {
  control_counters_.upgrade_failures.add();
  log_line(LogLevel::kError, absl::StrCat("upgrade: the new process, ", successor_->pid(), ": ", successor_->error(),
                                          "; this process serves again. ", successor_->sessions_taken(),
                                          " connections had moved and are lost"));
  phase_ = Phase::kServing;
  deadline_ = std::chrono::steady_clock::time_point::max();
  stop_moving_out(/*accepts=*/true);
  if (admin_) admin_->accept_again();
  successor_.reset();
}

// False if it has ended.
bool Server::exchange_with(Predecessor& predecessor) {
  const auto take = [this](MovingSession& session) {
    if (!can_resume(session)) return false;
    workers_[next_worker_++ % workers_.size()]->resume(std::move(session), /*stays=*/false);
    return true;
  };
  if (predecessor.exchange(take)) return true;
  log_line(LogLevel::kInfo, absl::StrCat("upgrade: an old process has ended; ", predecessor.sessions_taken(),
                                         " of its connections continue here"));
  return false;
}

// Whether the configuration has what the session needs.
bool Server::can_resume(const MovingSession& session) const {
  if (phase_ != Phase::kServing) return false;
  const auto& listeners = generation_.config->listeners;
  const auto has_listener = [&](const std::string& name) {
    const auto found = std::ranges::find(listeners, name, &config::Listener::name);
    return found != listeners.end() && (session.kind == MovingSession::Kind::kTcp) == found->tcp.has_value();
  };
  return std::ranges::all_of(session.listeners, has_listener) &&
         std::ranges::all_of(session.endpoints, [this](const MovingSession::Endpoint& each) { return has(each); });
}

bool Server::has(const MovingSession::Endpoint& wanted) const {
  for (const auto& upstream : generation_.upstreams) {
    if (upstream->config().name != wanted.upstream) continue;
    // The addresses of names are known to the workers only.
    for (const config::Endpoint& endpoint : upstream->config().endpoints) {
      if (endpoint.is_resolved() || endpoint.address.text() == wanted.address) return true;
    }
  }
  return false;
}

}  // namespace sluice
