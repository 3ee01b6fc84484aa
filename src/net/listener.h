#pragma once

#include <sys/types.h>

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
  uint32_t file_mode = 0;        ///< Permissions of the file of a Unix socket, from its beginning; 0: by the umask.
  int keepalive_idle_s = 0;      ///< 0: no keep-alive.
  int keepalive_interval_s = 0;  ///< 0: the system default.
  int keepalive_probes = 0;      ///< 0: the system default.
};
absl::StatusOr<int> open_listener(const sockaddr* address, socklen_t length, const ListenOptions& options);
/// Changes the options of a listening socket, except `ipv6_only`. Connections that it has accepted keep theirs.
void set_listen_options(int fd, const ListenOptions& options);
/// The inode of the socket behind a descriptor: duplicates have the same one. 0 if there is none.
ino_t socket_inode(int fd);

/// Accepts connections from one listening descriptor on one worker, whose ring and timers, like the owner, outlive it.
class alignas(kTargetAlignment) Listener {
 public:
  /// No bound: see Owner::accepting.
  static constexpr uint32_t kAll = UINT32_MAX;
  class Owner {
   public:
    virtual void on_accepted(Listener& listener, int fd) = 0;  ///< The owner takes over the descriptor.
    /// Accepting is paused for kRetryMs or until `resume`, because the process or system ran out of descriptors or
    /// memory, or accepting failed kMaxErrors times in a row.
    virtual void on_accept_paused(Listener& listener, int error) = 0;
    /// Returns how many connections to accept now; called whenever accepting is armed. With kAll, a multishot takes all
    /// pending connections at once, even more than there is room for. After 0 it is called again after kRetryMs or by
    /// `resume`.
    virtual uint32_t accepting() { return kAll; }

   protected:
    ~Owner() = default;
  };
  static constexpr uint64_t kRetryMs = 100;
  /// How many times reclaim() looks for connections, after kRetryMs each.
  static constexpr uint8_t kLooks = 50;
  /// The default of config::Listener::backlog. Clients that keep connecting must not hold up the loop.
  static constexpr int kMaxBacklog = 4096;
  /// Errors that affect at most one connection do not pause accepting, unless this many occur in a row.
  static constexpr uint8_t kMaxErrors = 32;
  /// How many waiting connections are accepted at once, besides those of the multishot: twice as many each time, as
  /// long as there are as many.
  static constexpr uint8_t kFirstBurst = 16, kMaxBurst = 128;

  /// `shared`: other workers accept from the same descriptor (a Unix socket cannot use SO_REUSEPORT), so it accepts one
  /// connection at a time.
  Listener(Ring& ring, TimerWheel& timers, Owner& owner, int fd, bool shared);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void start();
  /// Stops accepting. When the kernel accepts no more, the owner gets the connections that wait in the backlog, at most
  /// kMaxBacklog of them, and the descriptor is closed: see stopped(). Other workers accept the backlog of a `shared`
  /// descriptor. `leave_backlog`: another listener, of this or another process, accepts from the same socket, so what
  /// waits is left to it.
  void stop(bool leave_backlog = false);
  bool stopped() const { return stopped_ && fd_ < 0; }
  /// Calls the owner's `accepting` again. Connections already being accepted still arrive.
  void review();
  /// Ends a pause early because descriptors became available.
  void resume();
  /// Stops accepting, but keeps the descriptor: another process accepts from the same socket. For a new connection the
  /// kernel wakes one of those that wait, so a connection that came just now may have been announced here only. The
  /// owner still gets it (with Ring::accept_now, Linux 6.10).
  void leave();
  /// Whether leave() is complete: no connection arrives any more.
  bool left() const { return leave_ == Leave::kDone; }
  /// The other process is gone: accepts again. The kernel may still announce connections to that process only, until it
  /// has ended the ring of it: so for some seconds the listener looks for them, too.
  void reclaim();
  int fd() const { return fd_; }

  void complete(Op op, Completion completion);

 private:
  // The steps of leave().
  enum class Leave : uint8_t {
    kNo,
    kCanceling,  // Accepts are still in flight.
    kTaking,     // One Ring::accept_now at a time takes what waits.
    kDone,       // Nothing waited.
  };

  void arm();
  void arm_again();
  void accept_backlog();
  void accept_burst();
  void look_again();
  void continue_leaving();
  void continue_stopping();
  void take(Completion completion);
  void pause();

  Ring& ring_;
  TimerWheel& timers_;
  Owner& owner_;
  int fd_;
  bool shared_;
  bool armed_ = false;
  bool single_shot_ = false;  // The armed accept ends after one connection.
  bool stopped_ = false;
  bool leaves_backlog_ = false;  // See stop().
  bool paused_ = false;
  Leave leave_ = Leave::kNo;
  bool reviewed_ = false;    // The armed accept was canceled by arm_again().
  bool accepts_now_ = true;  // Whether the kernel has Ring::accept_now.
  uint8_t errors_ = 0;       // Consecutive errors.
  uint8_t burst_ = kFirstBurst;
  uint8_t burst_in_flight_ = 0;  // Submissions of Ring::accept_now.
  uint8_t looks_left_ = 0;       // Of reclaim().
  Timer retry_, look_;
};

}  // namespace sluice
