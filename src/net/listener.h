#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "net/ring.h"
#include "net/timer_wheel.h"

namespace sluice {

/// Options of a listening socket. TCP listeners use SO_REUSEPORT with one socket per worker: on a shared socket, a
/// multishot accept gives all connections to one worker. Accepted sockets inherit `nodelay` and the keep-alive options.
struct ListenOptions {
  int backlog = 4096;
  uint32_t unsent_bytes = 0;  ///< Bound on unsent bytes that the kernel queues (TCP_NOTSENT_LOWAT). 0: no bound.
  bool nodelay = true;
  bool ipv6_only = true;
  int keepalive_idle_s = 0;      ///< 0: no keep-alive.
  int keepalive_interval_s = 0;  ///< 0: the system default.
  int keepalive_probes = 0;      ///< 0: the system default.
};
absl::StatusOr<int> open_listener(const sockaddr* address, socklen_t length, const ListenOptions& options);

/// Accepts connections from one listening descriptor on one worker, whose ring and timers, like the owner, outlive it.
class alignas(kTargetAlignment) Listener {
 public:
  enum class Accepting : uint8_t { kMany, kOne, kNone };
  class Owner {
   public:
    virtual void on_accepted(Listener& listener, int fd) = 0;  ///< The owner takes over the descriptor.
    /// Accepting is paused for kRetryMs or until `resume`, because the process or system ran out of descriptors or
    /// memory, or accepting failed kMaxErrors times in a row.
    virtual void on_accept_paused(Listener& listener, int error) = 0;
    /// Returns how many connections to accept now; called whenever accepting is armed. A multishot takes all pending
    /// connections at once, even more than there is room for. After kNone it is called again after kRetryMs or by
    /// `resume`.
    virtual Accepting accepting() { return Accepting::kMany; }

   protected:
    ~Owner() = default;
  };
  static constexpr uint64_t kRetryMs = 100;
  /// Errors that affect at most one connection do not pause accepting, unless this many occur in a row.
  static constexpr uint8_t kMaxErrors = 32;

  /// `shared`: other workers accept from the same descriptor (a Unix socket cannot use SO_REUSEPORT), so it accepts one
  /// connection at a time.
  Listener(Ring& ring, TimerWheel& timers, Owner& owner, int fd, bool shared);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void start();
  /// Stops accepting and closes the descriptor. Connections pending in the backlog are lost.
  void stop();
  bool stopped() const { return stopped_ && !armed_; }
  /// Calls the owner's `accepting` again. Connections already being accepted still arrive.
  void review();
  /// Ends a pause early because descriptors became available.
  void resume();
  int fd() const { return fd_; }

  void complete(Completion completion);

 private:
  void arm();
  void pause();

  Ring& ring_;
  TimerWheel& timers_;
  Owner& owner_;
  int fd_;
  bool shared_;
  bool armed_ = false;
  bool single_shot_ = false;  // The armed accept ends after one connection.
  bool stopped_ = false;
  bool paused_ = false;
  bool reviewed_ = false;  // The armed accept was canceled by review().
  uint8_t errors_ = 0;     // Consecutive errors.
  Timer retry_;
};

}  // namespace sluice
