#include "proxy/server/control_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sluice {

namespace {

constexpr std::string_view kNamePrefix = "sluice-control-";
constexpr int kRequestTimeoutMs = 1000;
constexpr size_t kMaxRequestBytes = 8192;  // A command with a path.

// The address of the socket of a process. An abstract name begins with a null byte (unix(7)).
socklen_t address_of(pid_t pid, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::string name = absl::StrCat(kNamePrefix, pid);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

// Reads until the peer ends, or until `end` was received. Returns what has arrived by then, or by the timeout (-1:
// none).
std::string read_text(int fd, size_t most, char end, int timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  std::string text;
  for (pollfd ready{fd, POLLIN, 0}; text.size() < most && (text.empty() || text.back() != end);) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (poll(&ready, 1, timeout_ms < 0 ? -1 : static_cast<int>(std::max<int64_t>(left, 0))) != 1) break;
    char piece[4096];
    const ssize_t got = read(fd, piece, std::min(sizeof piece, most - text.size()));
    if (got <= 0) break;
    text.append(piece, static_cast<size_t>(got));
  }
  return text;
}

void write_text(int fd, std::string_view text) {
  while (!text.empty()) {
    pollfd ready{fd, POLLOUT, 0};
    if (poll(&ready, 1, kRequestTimeoutMs) != 1) return;
    const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return;
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

bool may_command(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlSocket>> ControlSocket::open() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot make the control socket");
  sockaddr_un address;
  const socklen_t length = address_of(getpid(), address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(fd, 16) != 0) {
    const int error = errno;
    close(fd);
    return absl::ErrnoToStatus(error, "cannot open the control socket");
  }
  return std::unique_ptr<ControlSocket>(new ControlSocket(fd));
}

ControlSocket::~ControlSocket() { close(fd_); }

void ControlSocket::serve(const std::function<absl::StatusOr<std::string>(std::string_view command)>& run) const {
  const int client = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  const absl::Cleanup close_it = [client] { close(client); };
  if (!may_command(client)) {
    return write_text(client, "error\nonly root and the user of the process may send it commands\n");
  }
  const std::string request = read_text(client, kMaxRequestBytes, '\n', kRequestTimeoutMs);
  if (!absl::EndsWith(request, "\n")) return;
  const absl::StatusOr<std::string> result = run(absl::StripSuffix(request, "\n"));
  write_text(client, result.ok() ? absl::StrCat("ok\n", *result, "\n")
                                 : absl::StrCat("error\n", result.status().message(), "\n"));
}

absl::StatusOr<std::string> send_control_command(pid_t pid, std::string_view command) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "socket");
  const absl::Cleanup close_it = [fd] { close(fd); };
  sockaddr_un address;
  const socklen_t length = address_of(pid, address);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    return absl::Status(
        absl::ErrnoToStatus(errno, "").code(),
        absl::StrCat("process ", pid, " takes no commands: is it `sluice run`, in the same network namespace?"));
  }
  write_text(fd, absl::StrCat(command, "\n"));
  const std::string response = read_text(fd, size_t{1} << 20, '\0', -1);
  std::string_view text = response;
  const bool ok = absl::ConsumePrefix(&text, "ok\n");
  if (!ok && !absl::ConsumePrefix(&text, "error\n")) {
    return absl::UnavailableError(absl::StrCat("process ", pid, " has ended before it responded"));
  }
  text = absl::StripSuffix(text, "\n");
  return ok ? absl::StatusOr<std::string>(std::string(text)) : absl::FailedPreconditionError(text);
}

std::vector<pid_t> controllable_processes() {
  std::vector<pid_t> found;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const size_t at = line.find(absl::StrCat("@", kNamePrefix));
    pid_t pid = 0;
    if (at == std::string::npos || !absl::SimpleAtoi(line.substr(at + 1 + kNamePrefix.size()), &pid)) continue;
    if (std::find(found.begin(), found.end(), pid) == found.end()) found.push_back(pid);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace sluice
