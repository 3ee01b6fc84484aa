#include "proxy/server/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/common/suggestions.h"

namespace sluice {

namespace {

// Where passed descriptors begin (SD_LISTEN_FDS_START).
constexpr int kFirstPassed = 3;
constexpr int kMostPassed = 4096;

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? std::string_view(value) : std::string_view();
}

// A sockaddr_un. Empty if the name is not one of a Unix socket.
std::string socket_address(std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() < 2 || name.size() >= sizeof address.sun_path || (name[0] != '/' && name[0] != '@')) return "";
  std::memcpy(address.sun_path, name.data(), name.size());
  size_t length = offsetof(sockaddr_un, sun_path) + name.size();
  if (name[0] == '@') {
    address.sun_path[0] = '\0';
  } else {
    ++length;  // The null byte at the end.
  }
  return {reinterpret_cast<const char*>(&address), length};
}

bool is_listening_stream(int fd) {
  int type = 0, accepts = 0;
  socklen_t length = sizeof type;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) return false;
  length = sizeof accepts;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &length) == 0 && accepts != 0;
}

// A line must not end the message's own line.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return line;
}

}  // namespace

// ---- Notifications

ServiceManager ServiceManager::from_environment() {
  ServiceManager manager;
  manager.address_ = socket_address(environment("NOTIFY_SOCKET"));
  if (!manager.address_.empty()) manager.fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return manager;
}

ServiceManager::~ServiceManager() {
  if (fd_ >= 0) close(fd_);
}

ServiceManager::ServiceManager(ServiceManager&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), address_(std::move(other.address_)) {}

ServiceManager& ServiceManager::operator=(ServiceManager&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(address_, other.address_);
  return *this;
}

void ServiceManager::ready(std::string_view status) { send(absl::StrCat("READY=1\nSTATUS=", one_line(status))); }

void ServiceManager::reloading() { send(absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", monotonic_us())); }

void ServiceManager::stopping(std::string_view status) { send(absl::StrCat("STOPPING=1\nSTATUS=", one_line(status))); }

void ServiceManager::main_pid(pid_t pid) { send(absl::StrCat("MAINPID=", pid)); }

void ServiceManager::feed_watchdog() { send("WATCHDOG=1"); }

void ServiceManager::send(std::string_view message) {
  if (fd_ < 0) return;
  const auto* const address = reinterpret_cast<const sockaddr*>(address_.data());
  (void)sendto(fd_, message.data(), message.size(), MSG_NOSIGNAL, address, static_cast<socklen_t>(address_.size()));
}

// ---- The watchdog

Watchdog Watchdog::from_environment() {
  int64_t timeout_us = 0;
  if (!absl::SimpleAtoi(environment("WATCHDOG_USEC"), &timeout_us) || timeout_us < 0) timeout_us = 0;
  pid_t pid = 0;
  const std::string_view for_pid = environment("WATCHDOG_PID");
  if (!for_pid.empty() && (!absl::SimpleAtoi(for_pid, &pid) || pid != getpid())) timeout_us = 0;
  return Watchdog(std::chrono::microseconds(timeout_us));
}

bool Watchdog::feeds(Clock::time_point now, const std::vector<Progress>& workers) {
  bool all = true;
  for (size_t i = 0; i < workers.size() && i < last_.size(); ++i) {
    all = all && (workers[i].has_ended || workers[i].count != last_[i].count);
  }
  last_ = workers;
  next_ = now + pause_;
  return all;
}

// ---- Passed sockets

absl::StatusOr<std::vector<int>> take_passed_sockets() {
  const std::string pid_text(environment("LISTEN_PID")), count_text(environment("LISTEN_FDS"));
  for (const char* const name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) unsetenv(name);
  std::vector<int> fds;
  if (pid_text.empty() || count_text.empty()) return fds;
  pid_t pid = 0;
  if (!absl::SimpleAtoi(pid_text, &pid)) {
    return absl::InvalidArgumentError(
        absl::StrCat("LISTEN_PID must be a process ID, as systemd sets it, got ", config::in_quotes(pid_text)));
  }
  if (pid != getpid()) return fds;
  int count = 0;
  if (!absl::SimpleAtoi(count_text, &count) || count < 0 || count > kMostPassed) {
    return absl::InvalidArgumentError(absl::StrCat("LISTEN_FDS must be a number up to ", kMostPassed,
                                                   ", as systemd sets it, got ", config::in_quotes(count_text)));
  }
  for (int fd = kFirstPassed; fd < kFirstPassed + count; ++fd) {
    if (!is_listening_stream(fd)) {
      return absl::InvalidArgumentError(
          absl::StrCat("descriptor ", fd,
                       " of LISTEN_FDS is no listening stream socket: the socket unit must have "
                       "ListenStream= and Accept=no"));
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fds.push_back(fd);
  }
  return fds;
}

}  // namespace sluice
