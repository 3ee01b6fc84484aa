#include "net/ring.h"

#include <poll.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "net/io_uring_access.h"
#include "net/wait_coalescing.h"
#include "sluice/internal/check.h"

// Reports a system call to ThreadSanitizer that does not go through libc (sanitizer/linux_syscall_hooks.h). The
// reference is weak: it is null without a sanitizer.
extern "C" [[gnu::weak]] void __sanitizer_syscall_pre_impl_close(long fd);

namespace sluice {

namespace {

// Space for the iovecs of one submission batch. A batch that needs more is submitted early.
constexpr size_t kScratchBytes = 128 * 1024;

constexpr int64_t kLongWaitNs = int64_t{3600} * 1'000'000'000;

// What a ring of this program does.
constexpr uint8_t kOperations[] = {IORING_OP_NOP,           IORING_OP_ACCEPT,  IORING_OP_RECV,       IORING_OP_POLL_ADD,
                                   IORING_OP_SEND,          IORING_OP_SENDMSG, IORING_OP_SENDMSG_ZC, IORING_OP_CONNECT,
                                   IORING_OP_ASYNC_CANCEL,  IORING_OP_CLOSE,   IORING_OP_MSG_RING,   IORING_OP_TIMEOUT,
                                   IORING_OP_TIMEOUT_REMOVE};
constexpr uint8_t kRegistrations[] = {IORING_REGISTER_PROBE, IORING_REGISTER_RING_FDS, IORING_UNREGISTER_RING_FDS,
                                      IORING_REGISTER_PBUF_RING, IORING_UNREGISTER_PBUF_RING};

// From now on the kernel refuses all else (-EACCES), such as to open files: whoever can write into the submission queue
// gets no further. A filter of system calls cannot do that, because it sees no operations. A kernel that has no
// restrictions works without them.
void restrict_operations(io_uring& ring) {
  std::vector<io_uring_restriction> allowed;
  for (const uint8_t operation : kOperations) {
    io_uring_restriction& each = allowed.emplace_back();
    each.opcode = IORING_RESTRICTION_SQE_OP;
    each.sqe_op = operation;
  }
  for (const uint8_t registration : kRegistrations) {
    io_uring_restriction& each = allowed.emplace_back();
    each.opcode = IORING_RESTRICTION_REGISTER_OP;
    each.register_op = registration;
  }
  io_uring_restriction& flags = allowed.emplace_back();
  flags.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
  flags.sqe_flags = IOSQE_BUFFER_SELECT | IOSQE_CQE_SKIP_SUCCESS;
  (void)io_uring_register_restrictions(&ring, allowed.data(), static_cast<unsigned>(allowed.size()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ring>> Ring::open(Options options) {
  std::unique_ptr<Ring> ring(new Ring);
  io_uring_params params{};
  // SUBMIT_ALL: one bad submission must not hold back the ones after it.
  params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL |
                 IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED;
  params.cq_entries = options.completion_entries;
  const int result = io_uring_queue_init_params(options.submission_entries, &ring->ring_, &params);
  if (result < 0) {
    ring->ring_.ring_fd = -1;
    return io_uring_error("io_uring_setup", -result, IoUringRestrictions::of_this_process());
  }
  restrict_operations(ring->ring_);
  if (const int enabled = io_uring_enable_rings(&ring->ring_); enabled < 0) {
    return io_uring_error("io_uring_register", -enabled, IoUringRestrictions::of_this_process());
  }
  // Saves a descriptor lookup per system call. If the kernel refuses, the ring still works.
  io_uring_register_ring_fd(&ring->ring_);
  ring->scratch_.resize(kScratchBytes);
  ring->pending_faults_.reserve(8);
  return ring;
}

Ring::~Ring() {
  if (ring_.ring_fd >= 0) io_uring_queue_exit(&ring_);
}

io_uring_sqe* Ring::next_sqe() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) {
    submit();
    sqe = io_uring_get_sqe(&ring_);
    SLUICE_CHECK(sqe != nullptr);
  }
  return sqe;
}

void Ring::finish(io_uring_sqe* sqe, Op op, void* target) {
  SLUICE_DCHECK(reinterpret_cast<uintptr_t>(target) % kTargetAlignment == 0);
  sqe->user_data = reinterpret_cast<uintptr_t>(target) | static_cast<uint64_t>(op);
  if (!faults_.empty()) [[unlikely]]
    maybe_inject(sqe, op);
}

void Ring::maybe_inject(io_uring_sqe* sqe, Op op) {
  for (size_t i = 0; i < faults_.size(); ++i) {
    Fault& fault = faults_[i];
    if (fault.op != op) continue;
    if (fault.skip-- > 0) return;
    const uint64_t user_data = sqe->user_data;
    io_uring_prep_nop(sqe);
    sqe->user_data = user_data;
    pending_faults_.push_back({user_data, {fault.res, fault.flags}});
    faults_.erase(faults_.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

void Ring::rewrite(Delivery& delivery) {
  for (size_t i = 0; i < pending_faults_.size(); ++i) {
    if (pending_faults_[i].user_data != delivery.user_data) continue;
    delivery.completion = pending_faults_[i].completion;
    pending_faults_.erase(pending_faults_.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

void Ring::accept_multishot(void* target, int fd, int flags) {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_multishot_accept(sqe, fd, nullptr, nullptr, flags);
  finish(sqe, Op::kAccept, target);
}

void Ring::accept_once(void* target, int fd, int flags) {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_accept(sqe, fd, nullptr, nullptr, flags);
  finish(sqe, Op::kAccept, target);
}

void Ring::accept_now(void* target, int fd, int flags) {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_accept(sqe, fd, nullptr, nullptr, flags);
  sqe->ioprio |= IORING_ACCEPT_DONTWAIT;
  finish(sqe, Op::kAcceptNow, target);
}

void Ring::recv_multishot(void* target, int fd, uint16_t group) {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_recv_multishot(sqe, fd, nullptr, 0, 0);
  // Without POLL_FIRST, an armed receive needs a buffer at once, and an empty group fails it before any data arrives.
  sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = group;
  finish(sqe, Op::kRecv, target);
}

void Ring::recv_once(void* target, int fd, uint16_t group, bool poll_first) {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_recv(sqe, fd, nullptr, 0, 0);
  if (poll_first) sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = group;
  finish(sqe, Op::kRecv, target);
}

void Ring::recv_into(void* target, int fd, std::byte* to, size_t bytes) {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_recv(sqe, fd, to, bytes, 0);
  finish(sqe, Op::kRecv, target);
}

void Ring::wait_readable(void* target, int fd) {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_poll_add(sqe, fd, POLLIN);
  finish(sqe, Op::kReadable, target);
}

void Ring::wait_input(void* target, int fd) {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_poll_add(sqe, fd, POLLIN | POLLRDHUP);
  finish(sqe, Op::kInput, target);
}

void Ring::cancel_wait_input(void* target) {
  io_uring_sqe* sqe = next_sqe();
  const uint64_t user_data = reinterpret_cast<uintptr_t>(target) | static_cast<uint64_t>(Op::kInput);
  io_uring_prep_cancel64(sqe, user_data, IORING_ASYNC_CANCEL_ALL);
  sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
  finish(sqe, Op::kIgnored, nullptr);
}

void Ring::recv_bundles(void* target, int fd, uint16_t group, uint32_t shot_bytes, uint32_t total_bytes,
                        bool poll_first) {
  io_uring_sqe* sqe = next_sqe();
  // A single receive cannot be bounded: the kernel retries a bundle with all available data, whatever its length.
  io_uring_prep_recv_multishot(sqe, fd, nullptr, shot_bytes, 0);
  sqe->optlen = total_bytes;
  sqe->ioprio |= IORING_RECVSEND_BUNDLE;
  if (poll_first) sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = group;
  finish(sqe, Op::kRecv, target);
}

// An entry, with room for a message of these windows. Both may need a submission, after which the scratch memory is
// free again: so a message is written only once its entry exists.
io_uring_sqe* Ring::next_sqe_with_scratch(std::span<const iovec> windows) {
  if (scratch_used_ + sizeof(msghdr) + windows.size_bytes() > scratch_.size()) submit();
  return next_sqe();
}

msghdr* Ring::scratch_message(std::span<const iovec> windows) {
  const size_t bytes = sizeof(msghdr) + windows.size_bytes();
  SLUICE_CHECK(scratch_used_ + bytes <= scratch_.size());
  auto* message = new (scratch_.data() + scratch_used_) msghdr{};
  auto* iovecs = reinterpret_cast<iovec*>(message + 1);
  std::memcpy(iovecs, windows.data(), windows.size_bytes());
  message->msg_iov = iovecs;
  message->msg_iovlen = windows.size();
  scratch_used_ += bytes;
  return message;
}

void Ring::send(void* target, int fd, std::span<const iovec> windows) {
  // MSG_WAITALL makes io_uring continue a short send itself instead of waking this thread for each part.
  constexpr int kFlags = MSG_NOSIGNAL | MSG_WAITALL;
  if (windows.size() == 1) {
    io_uring_sqe* sqe = next_sqe();
    io_uring_prep_send(sqe, fd, windows[0].iov_base, windows[0].iov_len, kFlags);
    finish(sqe, Op::kSend, target);
    return;
  }
  io_uring_sqe* sqe = next_sqe_with_scratch(windows);
  msghdr* message = scratch_message(windows);
  io_uring_prep_sendmsg(sqe, fd, message, kFlags);
  finish(sqe, Op::kSend, target);
}

void Ring::send_zero_copy(void* target, int fd, std::span<const iovec> windows) {
  io_uring_sqe* sqe = next_sqe_with_scratch(windows);
  msghdr* message = scratch_message(windows);
  io_uring_prep_sendmsg_zc(sqe, fd, message, MSG_NOSIGNAL | MSG_WAITALL);
  sqe->ioprio |= IORING_SEND_ZC_REPORT_USAGE;
  finish(sqe, Op::kSendZeroCopy, target);
}

void Ring::connect(void* target, int fd, const sockaddr* address, socklen_t length) {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_connect(sqe, fd, address, length);
  finish(sqe, Op::kConnect, target);
}

void Ring::cancel_op(void* target, Op op) {
  io_uring_sqe* sqe = next_sqe();
  const uint64_t user_data = reinterpret_cast<uintptr_t>(target) | static_cast<uint64_t>(op);
  io_uring_prep_cancel64(sqe, user_data, IORING_ASYNC_CANCEL_ALL);
  finish(sqe, Op::kCancel, target);
}

void Ring::cancel_fd(void* target, int fd) {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_cancel_fd(sqe, fd, IORING_ASYNC_CANCEL_ALL);
  finish(sqe, Op::kCancel, target);
}

void Ring::cancel_receives(void* target, int fd) {
  io_uring_sqe* sqe = next_sqe();
  // By descriptor and opcode: Linux 6.6.
  io_uring_prep_cancel_fd(sqe, fd, IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_OP);
  sqe->len = IORING_OP_RECV;
  finish(sqe, Op::kCancel, target);
}

void Ring::close(int fd) {
  // Otherwise ThreadSanitizer takes the next descriptor of this number for the same one, and reports a race when
  // another thread closes it.
  if (&__sanitizer_syscall_pre_impl_close != nullptr) __sanitizer_syscall_pre_impl_close(fd);
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_close(sqe, fd);
  sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
  finish(sqe, Op::kIgnored, nullptr);
}

void Ring::message(int ring_fd, void* target) {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_msg_ring(sqe, ring_fd, 0, reinterpret_cast<uintptr_t>(target) | static_cast<uint64_t>(Op::kMessage), 0);
  sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
  finish(sqe, Op::kIgnored, nullptr);
}

void Ring::set_timer(uint64_t due_ms) {
  io_uring_sqe* sqe = next_sqe();
  timer_due_ = {static_cast<int64_t>(due_ms / 1000), static_cast<int64_t>(due_ms % 1000) * 1'000'000};
  if (timer_armed_) {
    // If the timer fires now, the update finds nothing. The worker then sets it again.
    io_uring_prep_timeout_update(sqe, &timer_due_, static_cast<uint64_t>(Op::kTimer), IORING_TIMEOUT_ABS);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    finish(sqe, Op::kIgnored, nullptr);
  } else {
    io_uring_prep_timeout(sqe, &timer_due_, 0, IORING_TIMEOUT_ABS);
    finish(sqe, Op::kTimer, nullptr);
    timer_armed_ = true;
  }
}

void Ring::submit() {
  const int result = io_uring_submit(&ring_);
  ++enters_;
  SLUICE_CHECK(result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY);
  // Submissions that the kernel has not taken still need their iovecs.
  if (io_uring_sq_ready(&ring_) == 0) scratch_used_ = 0;
}

// Since Linux 6.14 one call posts the completions of 20 pending operations and leaves the others for later. Under load
// they would wait behind all that the loop submits in the meantime, for many turns. After a smaller portion nothing was
// left behind, and what has arrived since is cheaper to take together in the next turn.
void Ring::run_pending_work() {
  constexpr unsigned kFullPortion = 16;
  const unsigned room = ring_.cq.ring_entries / 2;
  unsigned ready = io_uring_cq_ready(&ring_), added = ready;
  while (added >= kFullPortion && ready < room && (IO_URING_READ_ONCE(*ring_.sq.kflags) & IORING_SQ_TASKRUN)) {
    if (io_uring_get_events(&ring_) < 0) return;
    ++enters_;
    added = io_uring_cq_ready(&ring_) - ready;
    ready += added;
  }
}

void Ring::wait(int64_t timeout_ns, bool coalesced) {
  if (io_uring_cq_has_overflow(&ring_)) [[unlikely]]
    ++overflows_;
  coalesced &= timeout_ns != 0 && (ring_.features & IORING_FEAT_MIN_TIMEOUT);
  // Without a timeout, a coalesced wait would not return before all of its completions are there.
  if (coalesced && timeout_ns < 0) timeout_ns = kLongWaitNs;
  io_uring_cqe* cqe;
  int result;
  if (timeout_ns < 0) {
    result = io_uring_submit_and_wait(&ring_, 1);
  } else {
    __kernel_timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    result = coalesced ? io_uring_submit_and_wait_min_timeout(&ring_, &cqe, WaitCoalescing::kCompletions, &timeout,
                                                              WaitCoalescing::kMostUs, nullptr)
                       : io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &timeout, nullptr);
  }
  ++enters_;
  if (io_uring_sq_ready(&ring_) == 0) scratch_used_ = 0;
  run_pending_work();
  // -ETIME: the timeout expired. -EINTR: a signal. -EAGAIN, -EBUSY: completions must be reaped first.
  SLUICE_CHECK(result >= 0 || result == -ETIME || result == -EINTR || result == -EAGAIN || result == -EBUSY);
}

}  // namespace sluice
