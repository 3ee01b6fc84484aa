#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "net/loop_socket.h"
#include "net/ring.h"
#include "sluice/buffer.h"

namespace sluice {

class Worker;

/// A connected (or connecting) stream socket on a worker's ring. The worker and the owner outlive it.
///
/// Reading: an idle socket holds no buffer. It starts with a multishot receive from the worker's small group. A bulk
/// stream switches to single large receives, each armed only while the owner wants data, and returns to the multishot
/// when traffic is light. Writing: `send` queues, and one vectored send is in flight. The owner keeps the high and low
/// marks: it stops reading on the other side when `queued()` is too large, and `on_sent` notifies it when `queued()`
/// shrinks.
///
/// Lifetime: `close` (or `abort`) cancels pending operations. `on_closed` is called after the last completion, never
/// from inside `close`. Until then the object must stay at its address.
class Socket final : public LoopSocket {
 public:
  /// Callbacks. They run on the worker's loop, one at a time, and may call any method of any socket.
  class Owner {
   public:
    virtual void on_connected(Socket& socket, int error) = 0;  ///< `error`: 0 or an errno.
    virtual void on_data(Socket& socket, Buffer&& data) = 0;
    virtual void on_end(Socket& socket) = 0;               ///< End of stream: the peer sends nothing more.
    virtual void on_sent(Socket& socket) = 0;              ///< Queued bytes were sent; `queued()` is smaller.
    virtual void on_error(Socket& socket, int error) = 0;  ///< Reading or writing failed; close it.
    virtual void on_closed(Socket& socket) = 0;
    /// The socket is detached(). May be repeated.
    virtual void on_detached(Socket&) {}
    /// Number of bytes that the next bulk receive may deliver. Also bounds the data that arrives after stop_reading.
    virtual size_t receive_credit(Socket&) { return kDefaultCredit; }
    static constexpr size_t kDefaultCredit = 256 * 1024;

   protected:
    ~Owner() = default;
  };

  Socket(Worker& worker, Owner& owner) : worker_(worker), owner_(owner) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// Takes over a connected descriptor (blocking: a non-blocking one makes io_uring fail sends with EAGAIN). With
  /// AF_UNSPEC, the family is read from the descriptor.
  void adopt(int fd, int family = AF_UNSPEC);
  /// Takes over `fd` and connects it. `address` must stay valid until on_connected.
  void connect(int fd, const sockaddr* address, socklen_t length);

  bool open() const { return state_ == State::kOpen || state_ == State::kDetaching; }
  /// False after on_closed, or if no descriptor was ever adopted: the object may then be destroyed.
  bool busy() const { return state_ != State::kNone; }
  int fd() const { return fd_; }
  Worker& worker() const { return worker_; }

  /// Whether the owner wants data. Data of a receive in progress still arrives after stop_reading.
  void start_reading();
  void stop_reading();
  bool reading() const { return want_data_; }
  /// From its next receive on, each brings one buffer of the small group, so that stop_reading in on_data takes effect
  /// at once.
  void receive_little() { receives_little_ = true; }

  /// Queues `data` at the end of the output. Small pieces queued behind a slow peer are packed together, so that the
  /// output pins only a few times queued().
  void send(Buffer&& data);
  /// Bytes given to send that the kernel has not taken yet.
  size_t queued() const { return out_.size(); }
  /// Whether the connection failed without a completion: when a reset arrives together with data, the kernel delivers
  /// the data and wakes no one for the reset (seen on Linux 6.18). One system call. Meant for idle sockets.
  bool failed() const;
  /// Whether the peer has closed, half-closed or reset the connection, even if that has not been read yet. One system
  /// call. Meant for sockets that are not being read.
  bool peer_gone() const;
  /// Whether the connection is gone: reset, timed out, or closed by a Unix peer. Bytes that the kernel received earlier
  /// can still be read, and reading then ends by itself. One system call.
  bool gone() const;
  /// Bytes that the kernel has received and this socket has not read, not counting pending completions. One system
  /// call.
  size_t unread() const;
  /// Whether reading has ended or failed.
  bool input_over() const { return receive_ == Receive::kEnded; }
  /// Bytes that the kernel took and the peer has not acknowledged: a reset would drop them. 0 for Unix sockets, whose
  /// peer has all sent bytes, and for a connection that is gone. At most two system calls.
  uint64_t unacknowledged() const;
  /// Bytes that the peer has acknowledged so far; 0 for Unix sockets. The progress of a send in flight is visible only
  /// here. One system call.
  uint64_t acknowledged() const;
  /// Bytes of the stream that were received from the peer and that the peer has acknowledged, as the kernel counts them
  /// from the beginning of the connection. Empty for Unix sockets. One system call.
  struct Totals {
    uint64_t received = 0, acknowledged = 0;
  };
  std::optional<Totals> totals() const;
  /// Sends FIN once the queued output is empty.
  void shutdown_write();
  bool write_shut() const { return output_ == Output::kShut; }
  /// Whether shutdown_write() was called.
  bool write_ended() const { return output_ == Output::kEnding || output_ == Output::kShut; }
  /// The queued output.
  const Buffer& output() const { return out_; }
  /// Whether sending has failed, so that queued output is lost.
  bool output_failed() const { return output_ == Output::kFailed; }

  /// Cancels pending operations so that the connection can continue elsewhere. on_detached follows, never from inside
  /// this call. Data that has arrived is delivered first, and output stays queued: from now on nothing is received or
  /// sent. Precondition: connected.
  void detach();
  /// Undoes detach(): the socket continues as before.
  void reattach();
  /// Whether nothing is in flight after detach(), so that take() may be called.
  bool detached() const {
    return state_ == State::kDetaching && service_ == Service::kNone && in_flight_ == pending_notifications();
  }
  /// Takes the descriptor away without closing it, and drops queued output. on_closed follows, when the kernel has
  /// released the memory of zero-copy sends. Precondition: detached().
  int take();

  /// Closes the connection and drops queued output. `abort` makes the peer see a reset.
  void close();
  void abort();

  // Called by the worker's loop, as the functions of LoopSocket.
  void complete(Op op, Completion completion);
  void submit_send();
  void submit_receive();
  void end_service();
  void resume_parked(bool bulk);

 private:
  /// Bytes of zero-copy sends that the kernel has not released. Allocated only for sockets that use zero-copy.
  struct Lent {
    Buffer data;
    uint32_t sends = 0;
    /// Sizes of sends with a pending notification. Entries before `first` are finished.
    std::vector<uint32_t> sizes;
    size_t first = 0;
    /// Set once a copied send was notified at once: notifications then arrive out of order.
    bool unordered = false;
  };
  // The states of a socket. Each transition is a function that asserts where it comes from.
  //
  //   State       comes from           fd_   in flight
  //   kNone       kReleasing           none  nothing
  //   kOpen       kNone, kDetaching    open  anything
  //   kDetaching  kOpen                open  anything; only cancels are submitted
  //   kClosing    kOpen, kDetaching    open  anything; only cancels are submitted
  //   kReleasing  kClosing, kDetaching none  notifications of zero-copy sends
  //
  //   Output      comes from      out_
  //   kOpen       (State::kNone)  anything
  //   kEnding     kOpen           not empty
  //   kShut       kEnding         empty
  //   kFailed     kOpen, kEnding  not empty
  //
  //   Receive     comes from      in flight
  //   kOff        any             no receive
  //   kArmed      kOff            a receive
  //   kCancelling kArmed          a receive and its cancel, which may be repeated
  //   kParked     kOff            no receive
  //   kEnded      kOff            no receive
  //
  // Output and Receive matter in kOpen only; on the way to kNone, a receive in flight stays kArmed or kCancelling.
  enum class State : uint8_t { kNone, kOpen, kDetaching, kClosing, kReleasing };
  enum class Output : uint8_t {
    kOpen,
    kEnding,  // shutdown_write() was called: FIN follows the queued output.
    kShut,    // FIN was sent.
    kFailed,  // The queued output is not retried, and FIN not sent; reading may continue.
  };
  enum class Receive : uint8_t {
    kOff,
    kArmed,
    kCancelling,
    kParked,  // Found no buffer: in the worker's list.
    kEnded,   // End of stream, or an error.
  };
  // Whether the socket is in the worker's list of sockets to serve at the end of the batch.
  enum class Service : uint8_t {
    kNone,
    kQueued,
    kQueuedToCancel,  // A cancel is retried then: one that found a submission may have missed another.
  };

  /// The target of the socket's submissions: the worker casts it back to the same type.
  LoopSocket* target() { return this; }
  void complete_receive(Completion completion);
  void complete_send(Completion completion);
  void complete_zero_copy(Completion completion);
  void lend(size_t bytes);
  void take_back_one(bool copied);
  void receive_ended(Completion completion);
  bool input_is_over() const;
  void receive_end();
  void submit_own_receive();
  void complete_readable(Completion completion);
  /// The receive chunk when buffers are not provided. The worker keeps it, so that sockets need no space for it.
  ChunkRef& own_chunk();
  bool take_own_chunk();
  Buffer received_in_own_chunk(size_t bytes);
  void note_received(Completion completion);
  void cancel_receive();
  void cancel_all();
  bool cancels_by_key(uint8_t misses) const;
  void cancel_ended(Completion completion);
  void retry_cancel();
  /// Completions that cannot be canceled: notifications of zero-copy sends whose memory the kernel still reads.
  uint32_t pending_notifications() const { return lent_ ? lent_->sends : 0; }
  bool closing() const { return state_ >= State::kClosing; }
  bool detaching() const { return state_ == State::kDetaching; }
  bool cancels_all() const { return state_ >= State::kDetaching; }
  bool may_send() const { return open() && output_ < Output::kShut; }
  void request_service();
  void maybe_closed();
  void check_in_flight();

  // Transitions, next to close, shutdown_write and cancel_receive.
  void open_with(int fd);
  void shut_output();
  void fail_output();
  void arm_receive(bool large);
  void receive_completed();
  void park();
  void unpark();
  void end_input();

  Worker& worker_;
  Owner& owner_;
  Buffer out_;
  std::unique_ptr<Lent> lent_;
  int fd_ = -1;
  uint16_t in_flight_ = 0;  // Submissions with a completion still to come, including cancels.
  uint8_t cancels_ = 0;
  uint8_t cancel_misses_ = 0;  // Cancels that left submissions in flight.
  Receive receive_ = Receive::kOff;
  State state_ : 3 = State::kNone;
  Output output_ : 2 = Output::kOpen;
  Service service_ : 2 = Service::kNone;
  // Facts beside the states, in any combination.
  bool want_data_ : 1 = false;        // Not after close().
  bool sending_ : 1 = false;          // A send is in flight. `out_` is not empty then.
  bool bulk_ : 1 = false;             // Large single receives instead of the multishot.
  bool receiving_large_ : 1 = false;  // The armed receive uses the large group.
  bool no_zero_copy_ : 1 = false;     // Zero-copy does not pay or does not work on this socket.
  // No multishots: on a Unix socket they miss an end of stream that arrived with the last data (Linux 6.17 and later,
  // liburing issue 1549).
  bool single_ : 1 = false;
  bool receives_little_ : 1 = false;  // Neither multishots nor bulk.
  bool outgoing_ : 1 = false;         // Opened by connect().
  uint8_t quiet_receives_ = 0;        // Consecutive small receives in bulk mode.
  uint32_t batch_bytes_ = 0;          // Received in batch `batch_` of the loop.
  uint32_t batch_ = 0;
};

}  // namespace sluice
