#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/listener/moving_session.h"
#include "proxy/server/handed_values.h"
#include "proxy/server/handover_channel.h"
#include "proxy/tls/ticket_keys.h"

namespace sluice {

/// The process that an upgrade has started to replace this one, as this one sees it. For the control thread, except for
/// the functions of Departures.
class Successor final : public Departures {
 public:
  /// What starts it: the program, and the command line with the name of the program first.
  struct Command {
    std::string binary;
    std::vector<std::string> arguments;
  };
  /// Starts the process, gives it the listening sockets and the random keys of session tickets, and waits until it
  /// accepts connections. `predecessors`: the descriptors of Predecessors, whose sessions come to the new process from
  /// then on. The error is for the user; the process is gone then. `while_waiting` is called each second.
  static absl::StatusOr<std::unique_ptr<Successor>> start(const Command& command,
                                                          const std::vector<HandedSocket>& sockets, TicketKeys& keys,
                                                          const std::vector<int>& predecessors,
                                                          const std::function<void()>& while_waiting);
  /// The process continues without this one.
  ~Successor();
  Successor(const Successor&) = delete;
  Successor& operator=(const Successor&) = delete;

  pid_t pid() const { return pid_; }
  /// Readable if exchange() has something to do: a reply, or a session to send.
  int channel_fd() const { return channel_.fd(); }
  int departures_fd() const { return departures_fd_; }

  enum class State : uint8_t {
    kServing,
    kLeaving,  ///< It shuts down.
    kLost,     ///< It has died or does not respond, and was killed: this process has to serve in its place.
  };
  /// Sends sessions that wait and takes replies. Calls `keep` for each session that stays here. If the state is kLost,
  /// it has been called for all that had no reply.
  State exchange(const std::function<void(unsigned worker, MovingSession)>& keep);
  /// Whether no session is under way.
  bool idle() const { return under_way_.load(std::memory_order_relaxed) == 0; }
  uint64_t sessions_taken() const { return taken_; }
  uint64_t sessions_refused() const { return refused_; }
  /// Why it is lost.
  const std::string& error() const { return error_; }

  bool has_room() const override { return under_way_.load(std::memory_order_relaxed) < kMaxUnderWay; }
  void depart(unsigned worker, MovingSession session) override;

 private:
  // Sessions that have left their workers and have no reply. Each may have a few hundred KiB of output.
  static constexpr size_t kMaxUnderWay = 256;

  // Replies that the new process may have to send while this one sends: few enough for the buffer of its socket, so
  // that the two never wait for each other.
  static constexpr size_t kMaxWithoutReply = 64;
  static constexpr int kReplyTimeoutMs = 5000;

  struct Departure {
    unsigned worker;
    MovingSession session;
  };
  Successor(int fd, pid_t spawned, int departures_fd)
      : channel_(fd), spawned_(spawned), pid_(spawned), departures_fd_(departures_fd) {}
  absl::Status await_start();
  absl::Status hand_over(const std::vector<HandedSocket>& sockets, TicketKeys& keys,
                         const std::vector<int>& predecessors);
  absl::Status await_ready(const std::function<void()>& while_waiting);
  absl::Status send_waiting(const std::function<void(unsigned worker, MovingSession)>& keep);
  absl::Status take_replies(const std::function<void(unsigned worker, MovingSession)>& keep, int timeout_ms);
  void kill();
  void wait_for_spawned();

  HandoverChannel channel_;
  pid_t spawned_;            // The child of this process; 0 once it has ended.
  pid_t pid_;                // Its child, which goes on.
  const int departures_fd_;  // An eventfd.
  std::mutex mutex_;
  std::deque<Departure> waiting_;  // Guarded by mutex_.
  std::deque<Departure> sent_;     // Without a reply.
  std::atomic<size_t> under_way_{0};
  State state_ = State::kServing;
  uint64_t taken_ = 0;
  uint64_t refused_ = 0;
  std::string error_;
};

}  // namespace sluice
