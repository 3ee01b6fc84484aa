// An echo server on io_uring whose memory is sluice::iobuf's; a start for a server of your own, in one file and on one
// thread. Needs sluice::iobuf, liburing 2.4 or newer, and Linux 6.1 or newer.
//
//     echo [PORT [MIB]]        listens on 127.0.0.1:PORT (0: any) and keeps at most MIB MiB of data; default 7000 64
//
// Memory follows the data: chunks of a pool are posted to the kernel, which fills one when bytes arrive, on whichever
// connection. *Replace, do not lend*: a filled chunk leaves its slot for good and moves into the connection's Buffer,
// and another is posted under the same id. Once it is sent, it returns to the pool. No byte is copied, and a waiting
// connection holds no chunk. A real server also needs timeouts, and more than one thread.

#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sluice/buffer.h>
#include <sluice/chunk_pool.h>
#include <sluice/copied.h>

namespace {

using sluice::Buffer;
using sluice::ChunkPool;
using sluice::ChunkRef;
using sluice::Lease;

constexpr uint16_t kGroup = 0;
constexpr uint16_t kSlots = 64;  // A power of two.
constexpr size_t kChunkBytes = 4096;
// Queued for one client: at the high mark receiving from it stops, at the low mark it resumes.
constexpr size_t kHighBytes = 256 * 1024;
constexpr size_t kLowBytes = 64 * 1024;

[[noreturn]] void give_up(const char* what, int error) {
  std::fprintf(stderr, "echo: %s: %s\n", what, std::strerror(error));
  std::exit(1);
}

// A group of provided buffers whose slots are filled with chunks of a pool. Which chunk an id names is kept in a table
// here and never read back from memory that is shared with the kernel.
class PostedChunks {
 public:
  PostedChunks(io_uring& ring, ChunkPool& pool) : ring_(ring), pool_(pool) {
    int result = 0;
    shared_ = io_uring_setup_buf_ring(&ring, kSlots, kGroup, 0, &result);
    if (shared_ == nullptr) give_up("cannot register a ring of provided buffers", -result);
    for (uint16_t id = 0; id < kSlots; ++id) empty_.push_back(id);
    refill();
  }
  ~PostedChunks() { io_uring_free_buf_ring(&ring_, shared_, kSlots, kGroup); }
  PostedChunks(const PostedChunks&) = delete;
  PostedChunks& operator=(const PostedChunks&) = delete;

  // Takes the chunk of a completion's id out of its slot, with the bytes that the kernel wrote.
  Lease take(uint16_t id, size_t bytes) {
    empty_.push_back(id);
    return Lease(std::move(chunks_[id]), 0, bytes);
  }

  // Posts chunks to empty slots, as far as the pool's budget allows. Returns whether any slot is filled.
  bool refill() {
    int added = 0;
    while (!empty_.empty()) {
      ChunkRef chunk = ChunkRef::take(pool_.get(kChunkBytes));
      if (!chunk) break;
      const uint16_t id = empty_.back();
      empty_.pop_back();
      io_uring_buf_ring_add(shared_, chunk.data(), kChunkBytes, id, io_uring_buf_ring_mask(kSlots), added++);
      chunks_[id] = std::move(chunk);
    }
    io_uring_buf_ring_advance(shared_, added);
    return empty_.size() < kSlots;
  }

 private:
  io_uring& ring_;
  ChunkPool& pool_;
  io_uring_buf_ring* shared_ = nullptr;
  std::array<ChunkRef, kSlots> chunks_;  // By id.
  std::vector<uint16_t> empty_;          // Ids that name no chunk.
};

// The purpose of a submission: the low bits of user_data, next to the address of its connection.
enum Op : uint64_t { kIgnored, kAccept, kSignal, kReceive, kSend };
constexpr uint64_t kOpMask = 7;

struct alignas(kOpMask + 1) Connection {
  explicit Connection(int descriptor) : fd(descriptor) {}

  const int fd;
  Buffer queue;             // Received and not yet sent. The kernel may be sending its beginning.
  bool receiving = false;   // The kernel holds a multishot receive,
  bool cancelling = false;  // which was canceled.
  bool parked = false;      // There was no chunk: receiving resumes when there are some.
  bool sending = false;
  bool ended = false;   // Nothing more will arrive.
  bool failed = false;  // Nothing more can be sent.
};

class EchoServer {
 public:
  EchoServer(io_uring& ring, ChunkPool& pool, int listener, int signals)
      : ring_(ring), pool_(pool), posted_(ring, pool), listener_(listener), signals_(signals) {}

  // Serves until a signal arrives.
  void run() {
    accept();
    io_uring_sqe* sqe = next_submission();
    io_uring_prep_read(sqe, signals_, &signal_, sizeof signal_, 0);
    io_uring_sqe_set_data64(sqe, kSignal);
    while (!stopping_ || !connections_.empty()) {
      submit(1);
      io_uring_cqe* completion;
      while (io_uring_peek_cqe(&ring_, &completion) == 0) {
        const io_uring_cqe got = *completion;
        io_uring_cqe_seen(&ring_, completion);
        handle(got.user_data, got.res, got.flags);
      }
      // The sends of this turn have returned chunks.
      if (posted_.refill()) {
        for (Connection* connection : std::exchange(parked_, {})) {
          connection->parked = false;
          advance(*connection);
        }
      }
    }
    std::printf("%llu bytes echoed, %llu bytes copied, %zu bytes of chunks at most\n",
                static_cast<unsigned long long>(echoed_bytes_), static_cast<unsigned long long>(sluice::copied_bytes),
                pool_.stats().out_bytes_peak);
  }

 private:
  // The memory that the kernel reads of a vectored send when it takes the submission.
  struct Message {
    msghdr header;
    std::array<iovec, 16> windows;
  };

  void submit(unsigned wait_for) {
    const int result = io_uring_submit_and_wait(&ring_, wait_for);
    if (result < 0 && result != -EINTR && result != -EBUSY) give_up("io_uring_enter", -result);
    if (io_uring_sq_ready(&ring_) == 0) messages_used_ = 0;
  }

  io_uring_sqe* next_submission() {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    while (sqe == nullptr) {
      submit(0);
      sqe = io_uring_get_sqe(&ring_);
    }
    return sqe;
  }
  static uint64_t user_data(Op op, const Connection& connection) {
    return reinterpret_cast<uintptr_t>(&connection) | op;
  }

  void accept() {
    io_uring_sqe* sqe = next_submission();
    io_uring_prep_multishot_accept(sqe, listener_, nullptr, nullptr, SOCK_CLOEXEC);
    io_uring_sqe_set_data64(sqe, kAccept);
  }

  void receive(Connection& connection) {
    io_uring_sqe* sqe = next_submission();
    io_uring_prep_recv_multishot(sqe, connection.fd, nullptr, 0, 0);
    sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;  // A chunk is taken when bytes have arrived, not before.
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = kGroup;
    io_uring_sqe_set_data64(sqe, user_data(kReceive, connection));
    connection.receiving = true;
  }

  void send(Connection& connection) {
    while (messages_used_ == messages_.size()) submit(0);
    io_uring_sqe* sqe = next_submission();
    Message& message = messages_[messages_used_++];
    message.header = {};
    message.header.msg_iov = message.windows.data();
    message.header.msg_iovlen = connection.queue.fill_iovecs(message.windows);
    io_uring_prep_sendmsg(sqe, connection.fd, &message.header, MSG_NOSIGNAL);
    io_uring_sqe_set_data64(sqe, user_data(kSend, connection));
    connection.sending = true;
  }

  void handle(uint64_t data, int result, unsigned flags) {
    Connection* connection = reinterpret_cast<Connection*>(data & ~kOpMask);
    switch (data & kOpMask) {
      case kAccept:
        return accepted(result, flags);
      case kSignal:
        return stop();
      case kReceive:
        return received(*connection, result, flags);
      case kSend:
        return sent(*connection, result);
      default:
        return;
    }
  }

  void accepted(int result, unsigned flags) {
    if (result < 0) std::fprintf(stderr, "echo: cannot accept: %s\n", std::strerror(-result));
    if (!(flags & IORING_CQE_F_MORE)) {
      // Out of descriptors: an immediate retry would fail too. The next close frees one.
      accept_later_ = result < 0 && !connections_.empty();
      if (!accept_later_) accept();
    }
    if (result < 0) return;
    if (stopping_) {
      close(result);
      return;
    }
    const int on = 1;
    setsockopt(result, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    advance(*(connections_[result] = std::make_unique<Connection>(result)));
  }

  void received(Connection& connection, int result, unsigned flags) {
    if (flags & IORING_CQE_F_BUFFER) {
      const size_t bytes = result > 0 ? static_cast<size_t>(result) : 0;
      Lease piece = posted_.take(static_cast<uint16_t>(flags >> IORING_CQE_BUFFER_SHIFT), bytes);
      posted_.refill();
      if (connection.queue.empty()) {
        connection.queue.append(std::move(piece));
      } else {
        // Behind other bytes a small piece is packed: with a chunk for each, a client that sends single bytes and reads
        // nothing would pin 4 KiB per byte.
        connection.queue.append_packed(pool_, std::move(piece).freeze());
      }
    }
    if (!(flags & IORING_CQE_F_MORE)) connection.receiving = connection.cancelling = false;
    if (result == 0) {
      connection.ended = true;
    } else if (result == -ENOBUFS) {
      connection.parked = true;
      parked_.push_back(&connection);
    } else if (result < 0 && result != -ECANCELED) {
      fail(connection);
    }
    advance(connection);
  }

  void sent(Connection& connection, int result) {
    connection.sending = false;
    if (result >= 0) {
      echoed_bytes_ += static_cast<size_t>(result);
      connection.queue.trim_front(static_cast<size_t>(result));  // Chunks that were sent completely return to the pool.
    } else {
      fail(connection);
    }
    advance(connection);
  }

  // Submits what the state of a connection requires. The connection may be destroyed afterwards.
  void advance(Connection& c) {
    if (!c.sending && !c.failed && !c.queue.empty()) send(c);
    const size_t queued = c.queue.size();
    if (c.receiving && !c.cancelling && queued >= kHighBytes) {
      io_uring_sqe* sqe = next_submission();
      io_uring_prep_cancel64(sqe, user_data(kReceive, c), 0);
      io_uring_sqe_set_data64(sqe, kIgnored);
      c.cancelling = true;
    }
    if (!c.receiving && !c.parked && !c.ended && queued <= kLowBytes) receive(c);
    if (c.ended && !c.receiving && !c.sending && (c.failed || c.queue.empty())) end(c);
  }

  // Ends all operations that are in progress for it.
  void fail(Connection& connection) {
    connection.failed = connection.ended = true;
    shutdown(connection.fd, SHUT_RDWR);
  }

  // Precondition: the kernel holds no submission of it.
  void end(Connection& connection) {
    const int fd = connection.fd;
    std::erase(parked_, &connection);
    connections_.erase(fd);
    close(fd);
    if (std::exchange(accept_later_, false)) accept();
  }

  void stop() {
    stopping_ = true;
    std::vector<Connection*> all;
    for (auto& [fd, connection] : connections_) all.push_back(connection.get());
    for (Connection* connection : all) {
      fail(*connection);
      advance(*connection);
    }
  }

  io_uring& ring_;
  ChunkPool& pool_;
  PostedChunks posted_;
  int listener_;
  int signals_;
  signalfd_siginfo signal_{};
  bool stopping_ = false;
  bool accept_later_ = false;
  std::unordered_map<int, std::unique_ptr<Connection>> connections_;  // By descriptor.
  std::vector<Connection*> parked_;                                   // In the order in which they were.
  std::array<Message, 64> messages_;
  size_t messages_used_ = 0;  // Since the last submission.
  uint64_t echoed_bytes_ = 0;
};

int open_listener(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) give_up("cannot bind", errno);
  if (listen(fd, 1024) != 0) give_up("cannot listen", errno);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  std::printf("listening on 127.0.0.1:%u\n", static_cast<unsigned>(ntohs(address.sin_port)));
  std::fflush(stdout);
  return fd;
}

constexpr unsigned long kNoNumber = ~0ul;

unsigned long number(const char* text, unsigned long limit) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text, &end, 10);
  return end == text || *end != '\0' || value > limit ? kNoNumber : value;
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned long port = argc > 1 ? number(argv[1], 65535) : 7000;
  const unsigned long budget_mib = argc > 2 ? number(argv[2], 65536) : 64;
  if (argc > 3 || port == kNoNumber || budget_mib == kNoNumber || budget_mib == 0) {
    std::fprintf(stderr, "usage: echo [PORT [MIB]]\n");
    return 2;
  }
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  const int signals = signalfd(-1, &ends, SFD_CLOEXEC);
  const int listener = open_listener(static_cast<uint16_t>(port));

  // The pool outlives everything that holds its chunks; its destructor reports any leaked chunk.
  ChunkPool pool({.budget_bytes = budget_mib << 20});
  ChunkPool::Use use(&pool);
  io_uring ring;
  const int result =
      io_uring_queue_init(256, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CLAMP);
  if (result < 0) give_up("cannot set up io_uring", -result);
  EchoServer(ring, pool, listener, signals).run();
  io_uring_queue_exit(&ring);
  close(listener);
  close(signals);
}
