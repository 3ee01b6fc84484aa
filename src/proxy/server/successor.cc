#include "proxy/server/successor.h"

#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proxy/server/handed_values.h"

namespace sluice {

namespace {

// It may wait for the names of endpoints to resolve.
constexpr std::chrono::seconds kStartTimeout{60};

absl::StatusOr<pid_t> spawn(const Successor::Command& command, int fd) {
  std::vector<char*> arguments;
  for (const std::string& each : command.arguments) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  const std::string variable = absl::StrCat(HandoverChannel::kEnvironment, "=", fd);
  const std::string prefix = absl::StrCat(HandoverChannel::kEnvironment, "=");
  std::vector<char*> environment;
  for (char** each = environ; *each; ++each) {
    // The new process has another ID, so that WATCHDOG_PID would switch its watchdog off.
    if (!absl::StartsWith(*each, prefix) && !absl::StartsWith(*each, "WATCHDOG_PID=")) environment.push_back(*each);
  }
  environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const absl::Cleanup destroy_files = [&files] { posix_spawn_file_actions_destroy(&files); };
  posix_spawn_file_actions_adddup2(&files, fd, fd);  // The same number: it stays open across exec.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy_attributes = [&attributes] { posix_spawnattr_destroy(&attributes); };
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigaddset(&signals, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, command.binary.c_str(), &files, &attributes, arguments.data(), environment.data());
  if (error != 0) {
    return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", command.binary));
  }
  return pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Successor>> Successor::start(const Command& command,
                                                            const std::vector<HandedSocket>& sockets, TicketKeys& keys,
                                                            const std::vector<int>& predecessors,
                                                            const std::function<void()>& while_waiting) {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return absl::ErrnoToStatus(errno, "socketpair");
  }
  const int departures_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  absl::StatusOr<pid_t> pid = departures_fd < 0 ? absl::ErrnoToStatus(errno, "eventfd") : spawn(command, ends[1]);
  ::close(ends[1]);
  if (!pid.ok()) {
    ::close(ends[0]);
    if (departures_fd >= 0) ::close(departures_fd);
    return pid.status();
  }
  std::unique_ptr<Successor> successor(new Successor(ends[0], *pid, departures_fd));
  absl::Status status = successor->await_start();
  if (!status.ok()) {
    successor->kill();
    return absl::Status(status.code(), absl::StrCat("the new process, ", *pid, ": ", status.message()));
  }
  status = successor->hand_over(sockets, keys, predecessors);
  // Even if it takes no sockets, it may say why.
  if (absl::Status ready = successor->await_ready(while_waiting); !ready.ok()) status = std::move(ready);
  if (status.ok()) return successor;
  successor->kill();
  return absl::Status(status.code(), absl::StrCat("the new process, ", successor->pid_, ": ", status.message()));
}

// The process that was spawned continues in a child of its own, and ends.
absl::Status Successor::await_start() {
  const absl::StatusOr<std::optional<HandoverMessage>> message = channel_.receive(kReplyTimeoutMs);
  if (!message.ok()) return message.status();
  if (!*message) return absl::DeadlineExceededError("it sends no data");
  pid_t pid = 0;
  if ((*message)->type != HandoverType::kStarted || !absl::SimpleAtoi(text_of((*message)->content), &pid) || pid <= 1) {
    return absl::InvalidArgumentError("it has sent an unexpected message");
  }
  wait_for_spawned();
  pid_ = pid;
  return absl::OkStatus();
}

void Successor::wait_for_spawned() {
  while (spawned_ > 0 && waitpid(spawned_, nullptr, 0) < 0 && errno == EINTR) {
  }
  spawned_ = 0;
}

Successor::~Successor() { ::close(departures_fd_); }

absl::Status Successor::hand_over(const std::vector<HandedSocket>& sockets, TicketKeys& keys,
                                  const std::vector<int>& predecessors) {
  for (const HandedSocket& socket : sockets) {
    SecretBytes content;
    socket.write(content);
    if (absl::Status sent = channel_.send(HandoverType::kSocket, text_of(content), socket.fds); !sent.ok()) return sent;
  }
  for (const int fd : predecessors) {
    if (absl::Status sent = channel_.send(HandoverType::kPredecessor, {}, {fd}); !sent.ok()) return sent;
  }
  SecretBytes ticket_keys;
  StateWriter writer(ticket_keys);
  keys.write(writer);
  if (absl::Status sent = channel_.send(HandoverType::kTicketKeys, text_of(ticket_keys)); !sent.ok()) return sent;
  return channel_.send(HandoverType::kSocketsEnd);
}

absl::Status Successor::await_ready(const std::function<void()>& while_waiting) {
  absl::StatusOr<std::optional<HandoverMessage>> message = std::nullopt;
  for (auto left = kStartTimeout; left.count() > 0 && message.ok() && !*message; --left) {
    message = channel_.receive(/*timeout_ms=*/1000);
    while_waiting();
  }
  if (!message.ok()) return message.status();
  if (!*message) return absl::DeadlineExceededError(absl::StrCat("not ready after ", kStartTimeout.count(), "s"));
  switch ((*message)->type) {
    case HandoverType::kReady:
      return absl::OkStatus();
    case HandoverType::kFailed:
      return absl::FailedPreconditionError(text_of((*message)->content));
    default:
      return absl::InvalidArgumentError("it has sent an unexpected message");
  }
}

void Successor::depart(unsigned worker, MovingSession session) {
  under_way_.fetch_add(1, std::memory_order_relaxed);
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back({worker, std::move(session)});
  }
  (void)eventfd_write(departures_fd_, 1);
}

Successor::State Successor::exchange(const std::function<void(unsigned worker, MovingSession)>& keep) {
  eventfd_t count = 0;
  (void)eventfd_read(departures_fd_, &count);
  absl::Status status = absl::OkStatus();
  if (state_ == State::kServing) {
    status = send_waiting(keep);
    if (status.ok()) status = take_replies(keep, /*timeout_ms=*/0);
  }
  if (!status.ok() && state_ == State::kServing) {
    error_ = std::string(status.message());
    state_ = State::kLost;
    kill();
  }
  if (state_ == State::kServing) return state_;
  std::deque<Departure> back = std::exchange(sent_, {});
  {
    std::lock_guard lock(mutex_);
    for (Departure& each : waiting_) back.push_back(std::move(each));
    waiting_.clear();
  }
  for (Departure& each : back) {
    under_way_.fetch_sub(1, std::memory_order_relaxed);
    keep(each.worker, std::move(each.session));
  }
  return state_;
}

absl::Status Successor::send_waiting(const std::function<void(unsigned worker, MovingSession)>& keep) {
  std::deque<Departure> waiting;
  {
    std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
  }
  absl::Status status = absl::OkStatus();
  for (Departure& each : waiting) {
    if (status.ok() && sent_.size() >= kMaxWithoutReply) status = take_replies(keep, kReplyTimeoutMs);
    if (status.ok() && sent_.size() >= kMaxWithoutReply) status = absl::UnavailableError("it sends no data");
    if (status.ok() && state_ == State::kServing) {
      SecretBytes content;
      write_session(each.session, content);
      status = channel_.send(HandoverType::kSession, text_of(content), each.session.fds);
    }
    sent_.push_back(std::move(each));
  }
  return status;
}

// `timeout_ms`: how long to wait for the first one.
absl::Status Successor::take_replies(const std::function<void(unsigned worker, MovingSession)>& keep, int timeout_ms) {
  for (;;) {
    absl::StatusOr<std::optional<HandoverMessage>> message = channel_.receive(std::exchange(timeout_ms, 0));
    if (!message.ok()) return message.status();
    if (!*message) return absl::OkStatus();
    const HandoverType type = (*message)->type;
    if (type == HandoverType::kLeaving) {
      state_ = State::kLeaving;
      return absl::OkStatus();
    }
    const bool is_reply = type == HandoverType::kSessionTaken || type == HandoverType::kSessionRefused;
    if (!is_reply || sent_.empty()) return absl::InvalidArgumentError("it has sent an unexpected message");
    Departure departure = std::move(sent_.front());
    sent_.pop_front();
    under_way_.fetch_sub(1, std::memory_order_relaxed);
    const size_t sessions = departure.session.listeners.size();
    if (type == HandoverType::kSessionTaken) {
      taken_ += sessions;
      for (const int fd : departure.session.take_fds()) ::close(fd);  // The new process has its own.
    } else {
      refused_ += sessions;
      keep(departure.worker, std::move(departure.session));
    }
  }
}

// It must not go on beside this process.
void Successor::kill() {
  ::kill(pid_, SIGKILL);
  if (spawned_ > 0) return wait_for_spawned();
  // Its end closes the channel.
  for (int left = kReplyTimeoutMs; left > 0 && channel_.receive(/*timeout_ms=*/1).ok(); --left) {
  }
}

}  // namespace sluice
