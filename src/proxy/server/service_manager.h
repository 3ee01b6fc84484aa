// The service manager that has started the process, such as systemd: notifications to it (sd_notify(3)), its watchdog,
// and the sockets that it passes on (sd_listen_fds(3)).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

/// Notifies the service manager of the state of the process, each time in one datagram. A datagram that cannot be sent
/// at once is dropped; without a service manager nothing is sent. For the control thread.
class ServiceManager {
 public:
  /// Takes the address of NOTIFY_SOCKET: a path, or an abstract name that begins with "@". The variable stays, for a
  /// process that takes over. An invalid address counts as none.
  static ServiceManager from_environment();
  ServiceManager() = default;
  ~ServiceManager();
  ServiceManager(ServiceManager&& other) noexcept;
  ServiceManager& operator=(ServiceManager&& other) noexcept;

  bool is_there() const { return fd_ >= 0; }
  /// All listeners accept, or a reload is over. `status` is one line for people.
  void ready(std::string_view status);
  /// A reload begins. ready() must follow.
  void reloading();
  /// The process drains, and then ends.
  void stopping(std::string_view status);
  /// Another process is the service from now on.
  void main_pid(pid_t pid);
  void feed_watchdog();

 private:
  void send(std::string_view message);

  int fd_ = -1;
  std::string address_;  // A sockaddr_un.
};

/// Decides when the watchdog of the service manager is fed: each half of its timeout, if all workers have made progress
/// since the last time. So the process is restarted also if only one worker is stuck.
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;
  struct Progress {
    uint64_t count = 0;      ///< Grows if the worker's loop responds.
    bool has_ended = false;  ///< The worker has stopped as it should.
  };

  /// `timeout`: of the service manager; 0 if it has no watchdog.
  explicit Watchdog(std::chrono::microseconds timeout) : pause_(timeout / 2) {}
  /// With the timeout of WATCHDOG_USEC, if WATCHDOG_PID is this process or not set.
  static Watchdog from_environment();

  bool is_on() const { return pause_.count() > 0; }
  /// When to call is_due() next; the end of time if the watchdog is off.
  Clock::time_point next() const { return is_on() ? next_ : Clock::time_point::max(); }
  /// Whether it is time for feeds(). The first time is the first call.
  bool is_due(Clock::time_point now) const { return is_on() && now >= next_; }
  /// Returns whether to feed the watchdog. The caller must then request a snapshot of each worker.
  bool feeds(Clock::time_point now, const std::vector<Progress>& workers);

 private:
  std::chrono::microseconds pause_;
  Clock::time_point next_ = Clock::time_point::min();
  std::vector<Progress> last_;
};

/// Takes the listening sockets that the service manager has passed on (socket activation), with close-on-exec set, and
/// removes LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES from the environment. The caller owns the descriptors. Empty if
/// there are none, or they are for another process. Returns InvalidArgument, for the user, if a variable has no number,
/// or a descriptor is no listening stream socket. Must be called before there are other threads.
absl::StatusOr<std::vector<int>> take_passed_sockets();

}  // namespace sluice
