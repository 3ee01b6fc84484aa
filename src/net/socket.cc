#include "net/socket.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "net/worker.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// A socket that receives this much in one batch becomes a bulk stream.
constexpr uint32_t kBulkBatchBytes = 64 * 1024;
// Bounds on the credit from the owner that one bulk receive may deliver.
constexpr size_t kBulkReceiveBytesMin = 64 * 1024;
constexpr size_t kBulkReceiveBytesMax = 1024 * 1024;
// A bulk stream ends after this many consecutive receives smaller than a small-group chunk.
constexpr uint32_t kQuietReceiveBytes = 16 * 1024;
constexpr uint8_t kQuietReceives = 8;

// More windows per sendmsg brought no further gain.
constexpr size_t kSendWindows = 32;

// Size of a read when buffers are not provided; the same as for grpc-go's connections.
constexpr size_t kOwnBytes = size_t{32} * 1024;

// Number of attempts when a cancel finds nothing while a submission is in flight.
constexpr uint8_t kCancelTries = 4;

// After so many misses, the submissions of a closing socket are searched by descriptor. The first miss may only mean
// that the completion has not been posted yet.
constexpr uint8_t kKeyedCancelMisses = 2;

// While a send is in flight, pieces up to this size are copied together instead of each pinning its chunk. This is half
// of a small chunk: larger pieces pin at most twice their size.
constexpr size_t kPackBytes = 8 * 1024;

// TCP_CLOSE of netinet/tcp.h, which cannot be included together with linux/tcp.h.
constexpr uint8_t kTcpClosed = 7;

bool read_tcp_info(int fd, tcp_info& info) {
  socklen_t length = sizeof info;
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0;
}

// `wanted`: events to report in addition to POLLERR and POLLHUP.
int events_of(int fd, short wanted = 0) {
  pollfd poll_fd{fd, wanted, 0};
  return ::poll(&poll_fd, 1, 0) == 1 ? poll_fd.revents : 0;
}

}  // namespace

Socket::~Socket() { SLUICE_CHECK(!busy()); }

void Socket::open_with(int fd) {
  SLUICE_DCHECK(state_ == State::kNone && fd >= 0);
  state_ = State::kOpen;
  fd_ = fd;
}

void Socket::adopt(int fd, int family) {
  open_with(fd);
  outgoing_ = false;
  socklen_t length = sizeof family;
  if (family == AF_UNSPEC) getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length);
  single_ = family == AF_UNIX;
}

void Socket::connect(int fd, const sockaddr* address, socklen_t length) {
  open_with(fd);
  outgoing_ = true;
  single_ = address->sa_family == AF_UNIX;
  ++in_flight_;
  worker_.ring().connect(target(), fd, address, length);
}

void Socket::request_service() {
  if (service_ != Service::kNone) return;
  service_ = Service::kQueued;
  worker_.request_service(*this);
}

void Socket::start_reading() {
  if (want_data_ || !open()) return;
  want_data_ = true;
  if (receive_ == Receive::kOff) request_service();
}

void Socket::stop_reading() {
  if (!want_data_) return;
  want_data_ = false;
  // A single receive delivers at most once more; a multishot would continue.
  if (receive_ == Receive::kArmed && !receiving_large_) cancel_receive();
  if (receive_ == Receive::kParked) unpark();
}

// ---- The states of receiving ----

void Socket::arm_receive(bool large) {
  SLUICE_DCHECK(state_ == State::kOpen && receive_ == Receive::kOff);
  receive_ = Receive::kArmed;
  receiving_large_ = large;
  ++in_flight_;
}

void Socket::receive_completed() {
  SLUICE_DCHECK(receive_ == Receive::kArmed || receive_ == Receive::kCancelling);
  receive_ = Receive::kOff;
  --in_flight_;
}

void Socket::park() {
  SLUICE_DCHECK(state_ == State::kOpen && receive_ == Receive::kOff);
  receive_ = Receive::kParked;
  worker_.park(*this, bulk_, outgoing_);
}

void Socket::unpark() {
  SLUICE_DCHECK(receive_ == Receive::kParked);
  worker_.unpark(*this, bulk_, outgoing_);
  receive_ = Receive::kOff;
}

void Socket::resume_parked(bool bulk) {
  unpark();
  bulk_ = bulk;
  submit_receive();
}

void Socket::end_input() {
  SLUICE_DCHECK(open() && receive_ == Receive::kOff);
  receive_ = Receive::kEnded;
}

void Socket::cancel_receive() {
  SLUICE_DCHECK(open() && (receive_ == Receive::kArmed || receive_ == Receive::kCancelling));
  receive_ = Receive::kCancelling;
  ++in_flight_;
  ++cancels_;
  if (cancels_by_key(1)) {
    worker_.ring().cancel_op(target(), Op::kRecv);
  } else {
    worker_.ring().cancel_receives(target(), fd_);
  }
}

// A search by descriptor visits the pending operations of all sockets: with 10,000 idle connections, each close would
// take as long as hundreds of requests.
bool Socket::cancels_by_key(uint8_t misses) const {
  return cancel_misses_ < misses && worker_.options().features.keyed_cancel;
}

void Socket::cancel_all() {
  const bool receiving = receive_ == Receive::kArmed || receive_ == Receive::kCancelling;
  const bool send_has_key = !sending_ || worker_.zero_copy_bytes() == SIZE_MAX;
  const bool all_known = in_flight_ == receiving + sending_ + cancels_ + pending_notifications();
  const auto cancel = [this](auto submit) {
    ++in_flight_;
    ++cancels_;
    submit(worker_.ring());
  };
  if (!cancels_by_key(kKeyedCancelMisses) || !send_has_key || !all_known) {
    return cancel([this](Ring& ring) { ring.cancel_fd(target(), fd_); });
  }
  const bool waits_readable = worker_.options().read_mode == ReadMode::kReady;
  if (receiving) cancel([&](Ring& ring) { ring.cancel_op(target(), waits_readable ? Op::kReadable : Op::kRecv); });
  if (sending_) cancel([this](Ring& ring) { ring.cancel_op(target(), Op::kSend); });
}

void Socket::send(Buffer&& data) {
  if (!may_send() || data.empty()) return;
  // Copy per window: a TLS record has three windows (header, body, tag) even if it carries one byte.
  if (sending_ && data.size() <= kPackBytes) {
    size_t copied = 0;
    for (const std::span<const std::byte> window : data.windows()) {
      if (!out_.append_copy(worker_.pool(), window)) break;
      copied += window.size();
    }
    if (copied > 0) ++worker_.counters().packed;
    if (copied == data.size()) return;
    data.trim_front(copied);
  }
  out_.append(std::move(data));
  if (!sending_) request_service();
}

bool Socket::failed() const {
  // POLLERR only: POLLHUP is also set when both directions have ended in good order, with data still to be read.
  return fd_ >= 0 && (events_of(fd_) & POLLERR);
}

bool Socket::peer_gone() const { return fd_ >= 0 && (events_of(fd_, POLLRDHUP) & (POLLERR | POLLHUP | POLLRDHUP)); }

uint64_t Socket::acknowledged() const {
  tcp_info info{};
  if (fd_ < 0 || single_ || !read_tcp_info(fd_, info)) return 0;
  return info.tcpi_bytes_acked;
}

std::optional<Socket::Totals> Socket::totals() const {
  tcp_info info{};
  if (fd_ < 0 || single_ || !read_tcp_info(fd_, info)) return std::nullopt;
  return Totals{.received = info.tcpi_bytes_received, .acknowledged = info.tcpi_bytes_acked};
}

bool Socket::gone() const {
  if (fd_ < 0) return true;
  if (single_) return events_of(fd_) & POLLHUP;
  tcp_info info{};
  return read_tcp_info(fd_, info) && info.tcpi_state == kTcpClosed;
}

size_t Socket::unread() const {
  int bytes = 0;
  return fd_ >= 0 && ioctl(fd_, SIOCINQ, &bytes) == 0 && bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

uint64_t Socket::unacknowledged() const {
  int bytes = 0;
  if (fd_ < 0 || single_ || ioctl(fd_, SIOCOUTQ, &bytes) != 0 || bytes <= 0) return 0;
  return gone() ? 0 : static_cast<uint64_t>(bytes);
}

void Socket::shutdown_write() {
  if (!may_send()) return;
  output_ = Output::kEnding;
  if (out_.empty()) shut_output();
}

void Socket::shut_output() {
  SLUICE_DCHECK(open() && output_ == Output::kEnding && out_.empty() && !sending_);
  output_ = Output::kShut;
  // A direct call: io_uring would hand a shutdown to its worker threads.
  ::shutdown(fd_, SHUT_WR);
}

void Socket::fail_output() {
  SLUICE_DCHECK(may_send() && !out_.empty() && !sending_);
  output_ = Output::kFailed;
}

void Socket::submit_send() {
  if (!may_send() || detaching() || sending_ || out_.empty()) return;
  std::array<iovec, kSendWindows> windows;
  const size_t count = out_.fill_iovecs(windows);
  sending_ = true;
  ++in_flight_;
  ++worker_.counters().sends;
  if (!no_zero_copy_ && out_.size() >= worker_.zero_copy_bytes()) {
    ++worker_.counters().zero_copy_sends;
    worker_.ring().send_zero_copy(target(), fd_, {windows.data(), count});
  } else {
    worker_.ring().send(target(), fd_, {windows.data(), count});
  }
}

void Socket::submit_receive() {
  if (!want_data_ || receive_ != Receive::kOff || detaching()) return;
  if (worker_.options().read_mode != ReadMode::kProvided) return submit_own_receive();
  arm_receive(/*large=*/bulk_);
  // While sockets wait for a buffer, each takes one in turn: a multishot would take all that are posted, and the others
  // would lose their place again and again.
  if (single_ || receives_little_ || (!bulk_ && worker_.counters().parked > 0) || worker_.short_of_memory()) {
    const BufferRing& group = bulk_ ? worker_.large_group() : worker_.small_group();
    worker_.ring().recv_once(target(), fd_, group.group(), /*poll_first=*/!bulk_);
  } else if (!bulk_) {
    worker_.ring().recv_multishot(target(), fd_, worker_.small_group().group());
  } else if (worker_.options().features.bundles) {
    const auto bytes =
        static_cast<uint32_t>(std::clamp(owner_.receive_credit(*this), kBulkReceiveBytesMin, kBulkReceiveBytesMax));
    // No POLL_FIRST: a bulk stream usually has data, and waiting for a wakeup costs 2 %.
    worker_.ring().recv_bundles(target(), fd_, worker_.large_group().group(), bytes, bytes, /*poll_first=*/false);
  } else {
    worker_.ring().recv_once(target(), fd_, worker_.large_group().group(), /*poll_first=*/false);
  }
}

// Arms one receive, with a buffer (ReadMode::kPinned) or without one (ReadMode::kReady).
void Socket::submit_own_receive() {
  const bool pinned = worker_.options().read_mode == ReadMode::kPinned;
  if (pinned && !take_own_chunk()) return receive_ended({-ENOBUFS, 0});
  arm_receive(/*large=*/!pinned);  // Waiting without a buffer needs no cancel: unwanted data is not read.
  if (pinned) {
    worker_.ring().recv_into(target(), fd_, own_chunk().data(), kOwnBytes);
  } else {
    worker_.ring().wait_readable(target(), fd_);
  }
}

ChunkRef& Socket::own_chunk() { return worker_.own_chunk(fd_); }

bool Socket::take_own_chunk() {
  ChunkRef& own = own_chunk();
  if (!own) own = ChunkRef::take(worker_.pool().get(kOwnBytes));
  return static_cast<bool>(own);
}

Buffer Socket::received_in_own_chunk(size_t bytes) {
  Lease lease(std::move(own_chunk()), 0, 0);
  lease.grow_back(bytes);
  Buffer data;
  data.append(std::move(lease));
  return data;
}

void Socket::complete_readable(Completion completion) {
  receive_completed();
  if (completion.res < 0) return receive_ended(completion);
  if (!want_data_) return;
  if (!take_own_chunk()) return receive_ended({-ENOBUFS, 0});
  ++worker_.counters().receives;
  const ssize_t bytes = ::recv(fd_, own_chunk().data(), kOwnBytes, MSG_DONTWAIT);
  if (bytes > 0) {
    owner_.on_data(*this, received_in_own_chunk(static_cast<size_t>(bytes)));
    return receive_ended({static_cast<int32_t>(bytes), 0});
  }
  const int error = errno;
  own_chunk() = {};
  receive_ended({bytes == 0 ? 0 : -error, 0});
}

void Socket::complete(Op op, Completion completion) {
  switch (op) {
    case Op::kRecv:
      complete_receive(completion);
      break;
    case Op::kReadable:
      complete_readable(completion);
      break;
    case Op::kSend:
      --in_flight_;
      complete_send(completion);
      break;
    case Op::kSendZeroCopy:
      complete_zero_copy(completion);
      break;
    case Op::kConnect:
      --in_flight_;
      if (open()) owner_.on_connected(*this, -completion.res);
      break;
    case Op::kCancel:
      --in_flight_;
      cancel_ended(completion);
      break;
    default:
      SLUICE_CHECK(false);
  }
  check_in_flight();
}

// A cancel may miss a submission that is changing hands inside the kernel, whether it finds nothing or finds another
// submission. It is retried a bounded number of times: two cancels on one socket would each see the other as pending
// and retry forever. Canceled submissions usually complete in the same batch, and only then is it visible what was
// missed.
void Socket::cancel_ended(Completion completion) {
  --cancels_;
  if (completion.res > 0 && !cancels_all()) cancel_misses_ = 0;
  if (cancels_ > 0) return;
  if (completion.res > 0) {
    if (!cancels_all()) return;
    request_service();
    service_ = Service::kQueuedToCancel;
    return;
  }
  if (cancels_all()) {
    retry_cancel();
  } else if (receive_ == Receive::kCancelling && ++cancel_misses_ < kCancelTries) {
    cancel_receive();
  }
}

void Socket::retry_cancel() {
  if (in_flight_ == pending_notifications()) return;
  if (++cancel_misses_ < kCancelTries) return cancel_all();
  if (detaching()) return;  // It may complete by itself. The owner has a timeout.
  // Some submission cannot be canceled. Shutting the connection down makes it complete.
  ::shutdown(fd_, SHUT_RDWR);
}

void Socket::complete_receive(Completion completion) {
  ++worker_.counters().receives;
  Buffer data;
  if (completion.has_buffer()) {
    // First, even if the data is not wanted: offsets in a posted chunk depend on it.
    (receiving_large_ ? worker_.large_group() : worker_.small_group()).take(completion, data);
  } else if (completion.res > 0 && worker_.options().read_mode == ReadMode::kPinned) {
    data = received_in_own_chunk(static_cast<size_t>(completion.res));
  }
  if (!completion.more()) receive_completed();
  if (closing()) return;
  if (!data.empty()) {
    if (completion.has_buffer()) note_received(completion);
    owner_.on_data(*this, std::move(data));
  }
  if (!completion.more()) receive_ended(completion);
}

// Chooses between the multishot on the small group and single large receives.
void Socket::note_received(Completion completion) {
  const auto bytes = static_cast<uint32_t>(completion.res);
  if (bulk_) {
    quiet_receives_ = bytes < kQuietReceiveBytes ? static_cast<uint8_t>(quiet_receives_ + 1) : uint8_t{0};
    if (quiet_receives_ < kQuietReceives) return;
    bulk_ = false;
    // The rest of the credit would use a large chunk for each small piece.
    if (receive_ == Receive::kArmed) cancel_receive();
    return;
  }
  // With single receives only, count over consecutive batches.
  const uint32_t batches = worker_.batch() - std::exchange(batch_, worker_.batch());
  if (batches > (single_ ? 1u : 0u)) batch_bytes_ = 0;
  batch_bytes_ += bytes;
  if (batch_bytes_ < kBulkBatchBytes || receives_little_) return;
  bulk_ = true;
  quiet_receives_ = 0;
  if (receive_ == Receive::kArmed) cancel_receive();
}

// Whether no data is left to read and the peer has ended or failed. Two system calls. (A recv with MSG_PEEK would
// consume the error.)
bool Socket::input_is_over() const {
  int unread = 0;
  return peer_gone() && ioctl(fd_, FIONREAD, &unread) == 0 && unread == 0;
}

// Receives the end of stream without a provided buffer: the kernel takes a buffer before it checks for data, and
// sockets whose peer is gone may hold the memory that others wait for.
void Socket::receive_end() {
  static std::byte nothing;
  arm_receive(/*large=*/false);
  worker_.ring().recv_into(target(), fd_, &nothing, sizeof nothing);
}

// Handles the end of a receive submission: arms it again, parks it, or ends reading.
void Socket::receive_ended(Completion completion) {
  if (closing()) return;
  if (completion.res == -ENOBUFS) {
    // Not an error: every posted chunk was taken. Wait until one is released.
    ++worker_.counters().no_buffers;
    if (!want_data_ || detaching()) return;
    if (input_is_over()) return receive_end();
    park();
  } else if (completion.res == 0) {
    end_input();
    // A send that was partly done when a reset arrived reports only the part (MSG_WAITALL) and consumes the error. What
    // remains visible is POLLHUP, although this side has not shut its direction down.
    if (!out_.empty() && (events_of(fd_) & POLLHUP)) return owner_.on_error(*this, ECONNRESET);
    owner_.on_end(*this);
  } else if (completion.res < 0 && completion.res != -ECANCELED && completion.res != -EINTR &&
             completion.res != -EAGAIN) {
    end_input();
    owner_.on_error(*this, -completion.res);
  } else if (want_data_) {
    // Canceled by this socket, out of buffers in the middle of a bundle, or a queue overflow: continue.
    request_service();
  }
}

void Socket::complete_send(Completion completion) {
  sending_ = false;
  if (closing()) return;
  const bool canceled = completion.res == -ECANCELED && detaching();
  if (completion.res < 0 && completion.res != -EINTR && completion.res != -EAGAIN && !canceled) {
    fail_output();
    owner_.on_error(*this, -completion.res);
    return;
  }
  if (completion.res > 0) out_.trim_front(static_cast<size_t>(completion.res));
  if (!out_.empty()) {
    request_service();
  } else if (output_ == Output::kEnding) {
    shut_output();
  }
  owner_.on_sent(*this);
}

void Socket::close() {
  if (!open()) return;
  state_ = State::kClosing;
  want_data_ = false;
  if (receive_ == Receive::kParked) unpark();
  if (in_flight_ > 0) {
    // Closing the descriptor cancels nothing, and the kernel holds the file until the last submission completes.
    cancel_all();
  }
  // on_closed must not run inside close, so the end of the batch checks again.
  request_service();
}

void Socket::detach() {
  if (state_ != State::kOpen) return;
  state_ = State::kDetaching;
  if (receive_ == Receive::kParked) unpark();
  if (in_flight_ > 0) cancel_all();
  // on_detached must not run inside detach, so the end of the batch checks again.
  request_service();
}

void Socket::reattach() {
  if (!detaching()) return;
  state_ = State::kOpen;
  cancel_misses_ = 0;
  request_service();
}

int Socket::take() {
  SLUICE_CHECK(detached());
  want_data_ = false;
  if (worker_.options().read_mode != ReadMode::kProvided) own_chunk() = {};
  state_ = State::kReleasing;
  out_.clear();
  request_service();
  return std::exchange(fd_, -1);
}

void Socket::abort() {
  if (!open()) return;
  const linger reset{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close();
}

void Socket::check_in_flight() {
  if (closing()) return maybe_closed();
  if (detached()) owner_.on_detached(*this);
}

// Precondition: closing().
void Socket::maybe_closed() {
  if (service_ != Service::kNone) return;
  // Notifications of zero-copy sends cannot be canceled: they arrive when the kernel drops its queue, which may require
  // that the descriptor is closed first, or take longer.
  if (state_ == State::kClosing && in_flight_ == pending_notifications()) {
    state_ = State::kReleasing;
    if (worker_.options().read_mode != ReadMode::kProvided) own_chunk() = {};
    worker_.ring().close(std::exchange(fd_, -1));
    out_.clear();
  }
  if (in_flight_ > 0) return;
  // Reset the state: the owner may connect again with the same object.
  SLUICE_DCHECK(state_ == State::kReleasing && !sending_);
  state_ = State::kNone;
  output_ = Output::kOpen;
  receive_ = Receive::kOff;
  cancel_misses_ = 0;
  bulk_ = no_zero_copy_ = false;
  owner_.on_closed(*this);
}

void Socket::end_service() {
  const bool to_cancel = service_ == Service::kQueuedToCancel;
  service_ = Service::kNone;
  if (to_cancel && cancels_ == 0) retry_cancel();
  check_in_flight();
}

// ---- LoopSocket ----

void LoopSocket::complete(Op op, Completion completion) { static_cast<Socket*>(this)->complete(op, completion); }
void LoopSocket::submit_send() { static_cast<Socket*>(this)->submit_send(); }
void LoopSocket::submit_receive() { static_cast<Socket*>(this)->submit_receive(); }
void LoopSocket::end_service() { static_cast<Socket*>(this)->end_service(); }
void LoopSocket::resume_parked(bool bulk) { static_cast<Socket*>(this)->resume_parked(bulk); }

}  // namespace sluice
