#include "proxy/server/predecessor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proxy/server/handed_values.h"

namespace sluice {

namespace {

constexpr int kSocketTimeoutMs = 5000;

}  // namespace

absl::Status Predecessor::leave_parent() {
  const char* const value = getenv(HandoverChannel::kEnvironment);
  int fd = -1;
  if (!value || !absl::SimpleAtoi(value, &fd)) return absl::OkStatus();
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "fork");
  if (child > 0) _exit(0);
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return absl::OkStatus();  // find() reports it.
  HandoverChannel channel(copy);
  (void)channel.send(HandoverType::kStarted, absl::StrCat(getpid()));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Predecessor>> Predecessor::find() {
  const char* const value = getenv(HandoverChannel::kEnvironment);
  if (!value) return nullptr;
  int fd = -1;
  const bool is_open = absl::SimpleAtoi(value, &fd) && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
  unsetenv(HandoverChannel::kEnvironment);
  if (!is_open) {
    return absl::InvalidArgumentError(absl::StrCat(
        HandoverChannel::kEnvironment, " is not an open descriptor; it is set by `sluice upgrade` only: unset it"));
  }
  return std::unique_ptr<Predecessor>(new Predecessor(fd));
}

absl::Status Predecessor::take_over(const Inherit& inherit, TicketKeys& keys,
                                    std::vector<std::unique_ptr<Predecessor>>& earlier) {
  for (;;) {
    absl::StatusOr<std::optional<HandoverMessage>> message = channel_.receive(kSocketTimeoutMs);
    if (message.ok() && !*message) message = absl::UnavailableError("it sends no data");
    if (!message.ok()) {
      return absl::Status(message.status().code(),
                          absl::StrCat("upgrade: the old process: ", message.status().message()));
    }
    const HandoverType type = (*message)->type;
    HandedSocket socket;
    std::vector<int> fds = std::move((*message)->fds);
    absl::Status taken = absl::InvalidArgumentError("upgrade: the old process has sent a malformed message");
    if (type == HandoverType::kSocketsEnd && fds.empty()) return absl::OkStatus();
    if (type == HandoverType::kPredecessor && fds.size() == 1) {
      earlier.push_back(std::unique_ptr<Predecessor>(new Predecessor(fds[0])));
      continue;
    }
    if (StateReader reader((*message)->content); type == HandoverType::kTicketKeys && fds.empty()) {
      if (keys.take_over(reader)) continue;
    }
    if (type == HandoverType::kSocket && socket.read((*message)->content)) {
      socket.fds = fds;
      taken = inherit(socket);
    }
    if (taken.ok()) continue;
    for (const int each : fds) ::close(each);
    return taken;
  }
}

bool Predecessor::exchange(const std::function<bool(MovingSession& session)>& take) {
  for (int i = 0; i < kAtOnce; ++i) {
    absl::StatusOr<std::optional<HandoverMessage>> message = channel_.receive(0);
    if (!message.ok()) return false;
    if (!*message) return true;
    MovingSession session;
    session.fds = std::move((*message)->fds);
    const bool is_session = (*message)->type == HandoverType::kSession && read_session((*message)->content, session);
    const bool taken = is_session && take(session);
    // The old process still has the connection, which a reset would end.
    if (!taken) {
      for (const int fd : session.take_fds()) ::close(fd);
    }
    taken_ += taken;
    if (!channel_.send(taken ? HandoverType::kSessionTaken : HandoverType::kSessionRefused).ok()) return false;
  }
  return true;
}

}  // namespace sluice
