#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "buffer/buffer.h"
#include "net/ring.h"

namespace sluice {

class Worker;

/// Where a socket's received bytes go. The first is ours; the others are what proxies usually do, to compare with and
/// to fall back on.
enum class ReadMode : uint8_t {
  kProvided,  ///< Into buffers that all sockets share: one that waits holds none.
  kReady,     ///< Into a buffer that is taken when the socket has become readable.
  kPinned,    ///< Into a buffer that the socket holds while it waits.
};

/// A connected (or connecting) stream socket on a worker's ring.
///
/// Reading: while it waits it holds no buffer. It starts with a multishot receive from the worker's small group; a
/// stream that proves bulk goes on with single large receives, each armed only while its owner wants data, and comes
/// back to the multishot when it turns quiet. Writing: `send` queues, one vectored send is in flight. The owner keeps
/// the marks: it stops the other side's reading when `queued()` is too much and hears `on_sent` as it shrinks.
///
/// Life: `close` (or `abort`) cancels what is in flight; `on_closed` comes once the last completion is in, never from
/// inside `close`. Until then the object must stay where it is.
class alignas(kTargetAlignment) Socket {
 public:
  /// What the owner hears. Calls come from the worker's loop, one at a time; each may call any method of any socket.
  class Owner {
   public:
    virtual void on_connected(Socket& socket, int error) = 0;  ///< `error` 0 or an errno.
    virtual void on_data(Socket& socket, Buffer&& data) = 0;
    virtual void on_end(Socket& socket) = 0;               ///< The peer will send nothing more.
    virtual void on_sent(Socket& socket) = 0;              ///< Queued bytes went out; `queued()` has shrunk.
    virtual void on_error(Socket& socket, int error) = 0;  ///< Reading or writing failed; close it.
    virtual void on_closed(Socket& socket) = 0;
    /// How many bytes a bulk receive that is about to be armed may deliver. A bound on what comes after stop_reading.
    virtual size_t receive_credit(Socket&) { return kDefaultCredit; }
    static constexpr size_t kDefaultCredit = 256 * 1024;

   protected:
    ~Owner() = default;
  };

  Socket(Worker& worker, Owner& owner) : worker_(worker), owner_(owner) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// Takes over a connected descriptor (blocking: a non-blocking one makes io_uring fail sends with EAGAIN). AF_UNSPEC:
  /// the kernel is asked for its family.
  void adopt(int fd, int family = AF_UNSPEC);
  /// Takes over `fd` and connects it; `address` must stay in place until on_connected.
  void connect(int fd, const sockaddr* address, socklen_t length);

  bool open() const { return fd_ >= 0 && !closing_; }
  /// False once on_closed has come (or nothing was ever adopted): the object may go.
  bool busy() const { return fd_ >= 0 || in_flight_ > 0 || queued_for_service_; }
  int fd() const { return fd_; }
  Worker& worker() const { return worker_; }

  /// Whether the owner wants data. Data that was under way still arrives after stop_reading.
  void start_reading();
  void stop_reading();
  bool reading() const { return want_data_; }

  /// Queues `data` behind what is queued already. Small pieces behind a slow peer are packed together, so that what is
  /// queued pins only a few times queued().
  void send(Buffer&& data);
  /// Bytes that were given to send and not yet taken by the kernel.
  size_t queued() const { return out_.size(); }
  /// Whether the connection has failed without a completion to tell: when a reset comes together with data, the kernel
  /// delivers the data and wakes nobody for the reset (seen on Linux 6.18). A system call; for sockets gone quiet.
  bool failed() const;
  /// Whether the peer has closed or reset the connection, or said that it sends nothing more, though that may not have
  /// been read yet. A system call; for sockets that are not read.
  bool peer_gone() const;
  /// Whether the connection is gone: reset, timed out, or a Unix peer has closed. What the kernel had received before
  /// can still be read, and reading comes to an end by itself. A system call.
  bool gone() const;
  /// Bytes that the kernel has received and we have not read, not counting completions under way. A system call.
  size_t unread() const;
  /// Whether reading has come to an end, or has failed.
  bool input_over() const { return receive_ == Receive::kEnded; }
  /// Bytes that the kernel took and the peer has not acknowledged: a reset would drop them. 0 for Unix sockets, whose
  /// peers have what was sent, and for a connection that is gone. A system call.
  uint64_t unacknowledged() const;
  /// Bytes that the peer has acknowledged so far, 0 for Unix sockets. A send that is under way shows its progress only
  /// here. A system call.
  uint64_t acknowledged() const;
  /// Sends FIN once the queue is empty.
  void shutdown_write();
  bool write_shut() const { return write_shut_; }

  /// Closes; what is still queued is dropped. `abort` makes the peer see a reset.
  void close();
  void abort();

  // For the worker's loop.
  void complete(Op op, Completion completion);
  /// Submits what is due: a send, or a receive.
  void submit_send();
  void submit_receive();
  void end_service();

 private:
  friend class Worker;
  /// What zero-copy sends have given to the kernel and not got back. Only sockets that send so have one.
  struct Lent {
    Buffer data;
    uint32_t sends = 0;
    /// Bytes of each send whose notice is still to come; those before `first` are done with.
    std::vector<uint32_t> sizes;
    size_t first = 0;
    /// Notices come out of order since one came at once, for a send that the kernel copied.
    bool unordered = false;
  };
  enum class Receive : uint8_t { kOff, kArmed, kCancelling, kParked, kEnded };

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
  /// What is received into, where buffers are not provided. Kept by the worker, so that sockets need no room for it.
  ChunkRef& own_chunk();
  bool take_own_chunk();
  Buffer received_in_own_chunk(size_t bytes);
  void note_received(Completion completion);
  void cancel_receive();
  void cancel_all();
  void cancel_ended(Completion completion);
  void cancel_again();
  /// Completions that cannot be cancelled: of zero-copy sends whose memory the kernel still reads.
  uint32_t notices() const { return lent_ ? lent_->sends : 0; }
  void request_service();
  void maybe_closed();

  Worker& worker_;
  Owner& owner_;
  Buffer out_;
  std::unique_ptr<Lent> lent_;
  // Parked sockets wait in a list, first in first out.
  Socket* parked_next_ = nullptr;
  Socket* parked_previous_ = nullptr;
  int fd_ = -1;
  uint16_t in_flight_ = 0;  // Submissions that will complete once more, cancels among them.
  uint8_t cancels_ = 0;
  uint8_t cancel_misses_ = 0;  // Cancels that left something in flight.
  Receive receive_ = Receive::kOff;
  bool want_data_ : 1 = false;
  bool bulk_ : 1 = false;  // Large single receives instead of the multishot.
  bool sending_ : 1 = false;
  bool shutdown_wanted_ : 1 = false;
  bool write_shut_ : 1 = false;
  bool closing_ : 1 = false;
  bool queued_for_service_ : 1 = false;
  bool receiving_large_ : 1 = false;  // What is armed now takes from the large group.
  bool no_zero_copy_ : 1 = false;     // This socket cannot.
  // No multishots: on a Unix socket they miss an end that came with the last data (Linux 6.17 and later, liburing's
  // issue 1549).
  bool single_ : 1 = false;
  bool outgoing_ : 1 = false;      // By connect().
  bool cancel_again_ : 1 = false;  // A cancel that found something may not have found everything.
  bool send_failed_ : 1 = false;   // What is queued is not tried again; reading may go on.
  uint8_t quiet_receives_ = 0;     // In a row, in bulk mode.
  uint32_t batch_bytes_ = 0;       // Received in the loop's batch `batch_`.
  uint32_t batch_ = 0;
};

}  // namespace sluice
