#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "net/ring.h"
#include "net/timer_wheel.h"

namespace sluice {

class Worker;

/// Opens a listening socket. TCP listeners are SO_REUSEPORT, one per worker: on a shared one a multishot accept gives
/// everything to one worker. `nodelay` and the keep-alive options are inherited by accepted sockets.
struct ListenOptions {
  int backlog = 4096;
  uint32_t unsent_bytes = 0;  ///< That the kernel takes at most beyond what is on its way (TCP_NOTSENT_LOWAT). 0: as
                              ///< many as it likes.
  bool nodelay = true;
  bool ipv6_only = true;
  int keepalive_idle_s = 0;      ///< 0: no keep-alive.
  int keepalive_interval_s = 0;  ///< 0: the system's.
  int keepalive_probes = 0;      ///< 0: the system's.
};
absl::StatusOr<int> open_listener(const sockaddr* address, socklen_t length, const ListenOptions& options);

/// Accepts connections from one listening descriptor on one worker.
class alignas(kTargetAlignment) Listener {
 public:
  enum class Accepting : uint8_t { kMany, kOne, kNone };
  class Owner {
   public:
    virtual void on_accepted(Listener& listener, int fd) = 0;  ///< The owner takes the descriptor.
    /// The process or system ran out of descriptors or memory, or accepting failed kMaxErrors times in a row: it pauses
    /// for kRetryMs or until `resume`.
    virtual void on_accept_paused(Listener& listener, int error) = 0;
    /// How many to accept now; asked whenever accepting is armed. A multishot takes all that wait at once, also more
    /// than there is room for. After kNone it is asked again in kRetryMs, and by `resume`.
    virtual Accepting accepting() { return Accepting::kMany; }

   protected:
    ~Owner() = default;
  };
  static constexpr uint64_t kRetryMs = 100;
  /// Errors that concern one connection at most are not waited for, unless there are so many of them in a row.
  static constexpr uint8_t kMaxErrors = 32;

  /// `shared`: other workers accept from the same descriptor (a Unix socket cannot be SO_REUSEPORT), so it takes one
  /// connection at a time.
  Listener(Worker& worker, Owner& owner, int fd, bool shared);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void start();
  /// Stops accepting and closes the descriptor; connections that already wait in the backlog are lost.
  void stop();
  bool stopped() const { return stopped_ && !armed_; }
  /// Asks the owner's `accepting` again; what is under way still arrives.
  void review();
  /// Tries again at once after a pause, because descriptors came free.
  void resume();
  int fd() const { return fd_; }

  void complete(Completion completion);

 private:
  void arm();
  void pause();

  Worker& worker_;
  Owner& owner_;
  int fd_;
  bool shared_;
  bool armed_ = false;
  bool singly_ = false;  // What is armed ends with one connection.
  bool stopped_ = false;
  bool paused_ = false;
  bool reviewed_ = false;  // What is armed was cancelled by us.
  uint8_t errors_ = 0;     // In a row.
  Timer retry_;
};

}  // namespace sluice
