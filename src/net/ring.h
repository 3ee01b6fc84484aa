#pragma once

#include <liburing.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

/// The kind of a submission, stored in the low bits of user_data next to the submitting object's address.
enum class Op : uint8_t {
  kIgnored,  ///< The completion is of no interest (and is skipped on success).
  kAccept,
  kAcceptNow,
  kRecv,
  kReadable,
  kInput,
  kSend,
  kSendZeroCopy,
  kConnect,
  kCancel,
  kMessage,
  kTimer,
};

/// A completion as delivered to the object that submitted the operation.
struct Completion {
  int32_t res;     ///< Result or negative errno.
  uint32_t flags;  ///< IORING_CQE_F_*.

  bool more() const { return flags & IORING_CQE_F_MORE; }
  bool has_buffer() const { return flags & IORING_CQE_F_BUFFER; }
  bool buffer_more() const { return flags & IORING_CQE_F_BUF_MORE; }
  /// Of an accept: whether more connections wait (Linux 6.10).
  bool more_waiting() const { return flags & IORING_CQE_F_SOCK_NONEMPTY; }
  bool notification() const { return flags & IORING_CQE_F_NOTIF; }
  uint16_t buffer_id() const { return static_cast<uint16_t>(flags >> IORING_CQE_BUFFER_SHIFT); }
};

/// Alignment of objects that submit. It leaves room for the Op in the low bits of their address.
inline constexpr size_t kTargetAlignment = 16;

/// One worker's io_uring: SINGLE_ISSUER | DEFER_TASKRUN, ring descriptor registered, submissions batched until `wait`.
/// Only the thread that opened it may use it.
///
/// Tests exercise error paths through `inject`: the next matching submission is replaced by a no-op whose completion
/// carries the given result.
class Ring {
 public:
  struct Options {
    unsigned submission_entries = 512;
    unsigned completion_entries = 4096;  ///< The kernel rounds it up to a power of two; overflow ends multishots.
  };
  /// Opens the ring on the calling thread. An error states what the kernel lacks or what disables io_uring, and what to
  /// do.
  static absl::StatusOr<std::unique_ptr<Ring>> open(Options options);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Submissions. `target` is passed to `handle`; null is allowed.

  void accept_multishot(void* target, int fd, int flags);
  void accept_once(void* target, int fd, int flags);
  /// Accepts a connection that waits already (Op::kAcceptNow); completes with -EAGAIN if there is none, and with
  /// -EINVAL before Linux 6.10.
  void accept_now(void* target, int fd, int flags);
  /// Receives into buffers of `group` until canceled. Waits for data before it takes a buffer.
  void recv_multishot(void* target, int fd, uint16_t group);
  /// Receives once, into one buffer of `group`.
  void recv_once(void* target, int fd, uint16_t group, bool poll_first);
  /// Receives once, into memory that must stay valid until the completion.
  void recv_into(void* target, int fd, std::byte* to, size_t bytes);
  /// Completes (Op::kReadable) when data, an end of stream or an error can be received.
  void wait_readable(void* target, int fd);
  /// Completes (Op::kInput, for a ReadableWait) likewise. The result is the events of poll(2), POLLRDHUP included.
  void wait_input(void* target, int fd);
  /// Cancels it. Has no completion of its own.
  void cancel_wait_input(void* target);
  /// Receives until `total_bytes` have arrived (or slightly more: the last shot is not cut). Each completion delivers
  /// at most `shot_bytes` in as many buffers of `group` as needed.
  void recv_bundles(void* target, int fd, uint16_t group, uint32_t shot_bytes, uint32_t total_bytes, bool poll_first);
  /// Sends all of `windows`. Their memory must stay valid until the completion; the array itself need not.
  void send(void* target, int fd, std::span<const iovec> windows);
  void send_zero_copy(void* target, int fd, std::span<const iovec> windows);
  /// `address` must stay valid until the completion.
  void connect(void* target, int fd, const sockaddr* address, socklen_t length);
  /// Cancels the pending operation `op` of `target` itself. The kernel finds it by a hash of user_data, so the time
  /// does not depend on the number of pending operations.
  void cancel_op(void* target, Op op);
  /// Cancels all submissions of `fd`, or only its receives. The kernel visits all pending operations of the ring.
  void cancel_fd(void* target, int fd);
  void cancel_receives(void* target, int fd);
  void close(int fd);
  /// Delivers (`target`, Op::kMessage) to another ring.
  void message(int ring_fd, void* target);

  /// Delivers (null, Op::kTimer) at `due_ms` of the monotonic clock; replaces an earlier deadline. One kernel timer
  /// that rarely moves costs less than a timeout on each wait.
  void set_timer(uint64_t due_ms);

  /// Submits the prepared entries.
  void submit();
  /// Submits the prepared entries and waits until something completes or `timeout_ns` has passed (negative: no
  /// timeout). `coalesced`: see WaitCoalescing; before Linux 6.12 it has no effect.
  void wait(int64_t timeout_ns, bool coalesced = false);

  /// Calls `handle(Op, void* target, Completion)` for each available completion and returns their number. `handle` may
  /// submit.
  template <typename Handle>
  unsigned reap(Handle&& handle) {
    unsigned count = 0;
    // Reap in portions: the head moves before the handlers run. The kernel gets the room back early, and a handler that
    // submits with a full queue cannot meet its own completions.
    io_uring_cqe* portion[64];
    for (;;) {
      // Not by a peek at an empty queue, which would enter the kernel for more.
      if (io_uring_cq_ready(&ring_) == 0) return count;
      const unsigned n = io_uring_peek_batch_cqe(&ring_, portion, 64);
      Delivery deliveries[64];
      for (unsigned i = 0; i < n; ++i) deliveries[i] = {portion[i]->user_data, {portion[i]->res, portion[i]->flags}};
      io_uring_cq_advance(&ring_, n);
      for (unsigned i = 0; i < n; ++i) {
        Delivery& d = deliveries[i];
        if (!pending_faults_.empty()) [[unlikely]]
          rewrite(d);
        if (d.user_data == static_cast<uint64_t>(Op::kTimer)) timer_armed_ = false;
        handle(static_cast<Op>(d.user_data & (kTargetAlignment - 1)),
               reinterpret_cast<void*>(d.user_data & ~uint64_t{kTargetAlignment - 1}), d.completion);
      }
      count += n;
    }
  }

  /// Whether completions wait to be reaped.
  bool has_completions() const { return io_uring_cq_ready(&ring_) > 0 || io_uring_cq_has_overflow(&ring_); }
  /// Number of waits that began with more completions than the queue holds.
  uint64_t overflows() const { return overflows_; }
  uint64_t enters() const { return enters_; }
  int fd() const { return ring_.ring_fd; }
  io_uring* raw() { return &ring_; }

  /// Test hook: the `skip + 1`-th submission of `op` from now becomes a no-op that completes with `res` and `flags`.
  void inject(Op op, int32_t res, uint32_t flags = 0, unsigned skip = 0) { faults_.push_back({op, res, flags, skip}); }
  /// Whether an injected fault has not been triggered.
  bool injecting() const { return !faults_.empty(); }
  /// Drops injected faults that have not been triggered.
  void stop_injecting() { faults_.clear(); }

 private:
  struct Delivery {
    uint64_t user_data;
    Completion completion;
  };
  struct Fault {
    Op op;
    int32_t res;
    uint32_t flags;
    unsigned skip;
  };

  Ring() = default;
  io_uring_sqe* next_sqe();
  void run_pending_work();
  void finish(io_uring_sqe* sqe, Op op, void* target);
  void maybe_inject(io_uring_sqe* sqe, Op op);
  void rewrite(Delivery& delivery);
  io_uring_sqe* next_sqe_with_scratch(std::span<const iovec> windows);
  msghdr* scratch_message(std::span<const iovec> windows);

  io_uring ring_{};
  uint64_t overflows_ = 0;
  uint64_t enters_ = 0;
  bool timer_armed_ = false;
  __kernel_timespec timer_due_{};  // The kernel reads it when it takes the submission.
  // The kernel copies iovecs when it takes a submission (IORING_FEAT_SUBMIT_STABLE), so they live here until then.
  std::vector<std::byte> scratch_;
  size_t scratch_used_ = 0;
  std::vector<Fault> faults_;
  struct PendingFault {
    uint64_t user_data;
    Completion completion;
  };
  std::vector<PendingFault> pending_faults_;
};

}  // namespace sluice
