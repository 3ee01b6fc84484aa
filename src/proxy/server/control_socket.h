#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

/// The socket on which a running process takes commands such as `reload`: a Unix socket in the abstract namespace,
/// named after the process ID. Only root and the process's own user may use it. A request is one line; the response is
/// a line, `ok` or `error`, and a text for the user.
class ControlSocket {
 public:
  /// Opens the socket of this process.
  static absl::StatusOr<std::unique_ptr<ControlSocket>> open();
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  /// Readable if a client waits.
  int fd() const { return fd_; }
  /// Serves one waiting client. `run` executes the command and returns the text of the response. A client that sends no
  /// complete command within a second gets no response.
  void serve(const std::function<absl::StatusOr<std::string>(std::string_view command)>& run) const;

 private:
  explicit ControlSocket(int fd) : fd_(fd) {}
  const int fd_;
};

/// Sends a command to the process `pid` and waits for its response. The error is for the user.
absl::StatusOr<std::string> send_control_command(pid_t pid, std::string_view command);

/// The processes of this network namespace that have a control socket, in ascending order.
std::vector<pid_t> controllable_processes();

}  // namespace sluice
