// Support for tests of sockets: a worker whose loop the test runs turn by turn, pairs of connected descriptors, the far
// end of one, and an owner that records its calls.
#pragma once

#include <arpa/inet.h>
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/features.h"
#include "net/listener.h"
#include "net/socket.h"
#include "net/worker.h"
#include "sluice/buffer.h"
#include "test/net/test_clock.h"
#include "test/support/buffers.h"

namespace sluice::test {

/// The features of this kernel, probed once.
inline const Features& kernel_features() {
  static const Features features = [] {
    absl::StatusOr<Features> probed = probe_features(RingsMode::kAuto);
    SLUICE_CHECK(probed.ok());
    return *probed;
  }();
  return features;
}
inline Features plain_features() {
  Features features = kernel_features();
  features.incremental = features.min_left = false;
  return features;
}

/// How long a test waits for an event that must come. Far longer than necessary, so that it only ends a hang.
inline constexpr std::chrono::seconds kPatience{40};

/// Open descriptors of this process.
inline size_t open_descriptors() {
  DIR* directory = opendir("/proc/self/fd");
  SLUICE_CHECK(directory != nullptr);
  size_t count = 0;
  while (readdir(directory)) ++count;
  closedir(directory);
  return count;
}

/// Bytes of a stream that are known from their position: `stream` distinguishes streams.
inline char stream_byte(uint64_t stream, uint64_t at) {
  uint64_t x = (at / 7 + 1) * 0x9e3779b97f4a7c15 ^ (stream + 1) * 0xbf58476d1ce4e5b9 ^ at;
  x ^= x >> 29;
  return static_cast<char>(x * 0x94d049bb133111eb >> 56);
}
inline std::string stream_bytes(uint64_t stream, uint64_t from, size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = stream_byte(stream, from + i);
  return bytes;
}
/// Whether `bytes` are those of `stream` from `from` on.
inline bool is_stream(uint64_t stream, uint64_t from, std::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != stream_byte(stream, from + i)) return false;
  }
  return true;
}

/// Connected descriptors, both blocking.
struct Pair {
  int ours;
  int theirs;
};
inline Pair unix_pair() {
  int fds[2];
  SLUICE_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  return {fds[0], fds[1]};
}

/// 127.0.0.1 and `port`, in host order.
inline sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}
inline const sockaddr* generic(const sockaddr_in& address) { return reinterpret_cast<const sockaddr*>(&address); }
inline uint16_t port_of(int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  SLUICE_CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  return ntohs(address.sin_port);
}
inline int tcp_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SLUICE_CHECK(fd >= 0);
  return fd;
}
/// A plain listening socket on a port that the kernel chose.
inline int tcp_listen(int backlog = 128) {
  const int fd = tcp_socket();
  const sockaddr_in any = loopback(0);
  SLUICE_CHECK(bind(fd, generic(any), sizeof any) == 0 && listen(fd, backlog) == 0);
  return fd;
}
/// A port on which no process listens. It is bound as long as the object lives, so that no other process takes it.
class ClosedPort {
 public:
  ClosedPort() : fd_(tcp_socket()) {
    const sockaddr_in any = loopback(0);
    SLUICE_CHECK(bind(fd_, generic(any), sizeof any) == 0);
  }
  ~ClosedPort() { ::close(fd_); }
  uint16_t port() const { return port_of(fd_); }

 private:
  int fd_;
};
inline int tcp_connect(uint16_t port) {
  const int fd = tcp_socket();
  const sockaddr_in address = loopback(port);
  SLUICE_CHECK(connect(fd, generic(address), sizeof address) == 0);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}
inline Pair tcp_pair() {
  const int listener = tcp_listen();
  Pair pair{-1, tcp_connect(port_of(listener))};
  pair.ours = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  SLUICE_CHECK(pair.ours >= 0);
  ::close(listener);
  return pair;
}

/// The far end of a connection, used without io_uring and without ever blocking.
class Peer {
 public:
  explicit Peer(int fd = -1) : fd_(fd) {}
  Peer(Peer&& other) noexcept
      : received(std::move(other.received)),
        ended(other.ended),
        error(other.error),
        fd_(std::exchange(other.fd_, -1)) {}
  Peer& operator=(Peer&& other) noexcept {
    close();
    received = std::move(other.received);
    ended = other.ended;
    error = other.error;
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  ~Peer() { close(); }

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  /// Sends as much as fits. Returns how much.
  size_t send_some(std::string_view bytes) const {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent > 0 ? static_cast<size_t>(sent) : 0;
  }
  /// Sends all of it, which must fit.
  void send(std::string_view bytes) const { SLUICE_CHECK(send_some(bytes) == bytes.size()); }
  /// Reads the available data, at most about `limit`, into `received`; records the end, or the error.
  size_t read(size_t limit = SIZE_MAX) {
    size_t total = 0;
    char bytes[65536];
    while (fd_ >= 0 && !ended && error == 0 && total < limit) {
      const ssize_t n = ::recv(fd_, bytes, std::min(sizeof bytes, limit - total), MSG_DONTWAIT);
      if (n > 0) {
        received.append(bytes, static_cast<size_t>(n));
        total += static_cast<size_t>(n);
        continue;
      }
      if (n == 0) ended = true;
      if (n < 0 && errno != EAGAIN) error = errno;
      break;
    }
    return total;
  }
  /// Reads the available data. Returns whether the other side has ended the connection, in order or by a reset. What it
  /// sent before arrives piece by piece on a busy machine: use it in Loop::until.
  bool over() {
    read();
    return ended || error == ECONNRESET;
  }
  void shutdown_write() const { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  /// The other side sees a reset (TCP).
  void reset() {
    const linger at_once{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

  std::string received;
  bool ended = false;
  int error = 0;

 private:
  int fd_;
};

/// Records the calls of a socket's owner.
class Recorder final : public Socket::Owner {
 public:
  std::string received;
  std::vector<int> connects;  ///< The errors passed to on_connected.
  std::vector<int> errors;
  int ends = 0;
  int sent = 0;
  int closed = 0;
  bool inside = false;  ///< During a call of a method of Socket: no call may come then.
  bool keep = false;    ///< Data goes to `kept` and not to `received`.
  Buffer kept;
  std::function<void(Socket&, Buffer&)> data;  ///< Called first; may take the data.
  std::function<void(Socket&)> end, after_sent, error, after_closed;
  std::function<void(Socket&, int)> connected;
  /// For when the objects to which the functions refer are destroyed.
  void clear_functions() {
    data = nullptr;
    end = after_sent = error = after_closed = nullptr;
    connected = nullptr;
  }

  void on_connected(Socket& socket, int e) override {
    EXPECT_FALSE(inside);
    connects.push_back(e);
    if (connected) connected(socket, e);
  }
  void on_data(Socket& socket, Buffer&& bytes) override {
    EXPECT_FALSE(inside);
    EXPECT_FALSE(bytes.empty());
    EXPECT_EQ(closed, 0);
    Buffer taken = std::move(bytes);
    if (data) data(socket, taken);
    if (keep) {
      kept.append(std::move(taken));
    } else {
      received += text_of(taken);
    }
  }
  void on_end(Socket& socket) override {
    EXPECT_FALSE(inside);
    ++ends;
    if (end) end(socket);
  }
  void on_sent(Socket& socket) override {
    EXPECT_FALSE(inside);
    ++sent;
    if (after_sent) after_sent(socket);
  }
  void on_error(Socket& socket, int e) override {
    EXPECT_FALSE(inside);
    errors.push_back(e);
    if (error) error(socket);
  }
  void on_closed(Socket& socket) override {
    EXPECT_FALSE(inside);
    EXPECT_FALSE(socket.busy());
    EXPECT_FALSE(socket.open());
    ++closed;
    if (after_closed) after_closed(socket);
  }
};

/// A worker on the test's own thread, which runs on TestClock. At the end every chunk must have returned, or be posted.
class Loop {
 public:
  explicit Loop(Worker::Options options = with_features()) {
    options.clock_us = TestClock::now_us;
    absl::StatusOr<std::unique_ptr<Worker>> opened = Worker::open(options);
    SLUICE_CHECK(opened.ok());
    worker_ = std::move(*opened);
    use_ = std::make_unique<ChunkPool::Use>(&worker_->pool());
    worker_->turn(0);
  }
  ~Loop() { EXPECT_EQ(chunks_out(), 0u) << "chunks did not come home"; }

  static Worker::Options with_features() {
    Worker::Options options;
    options.features = kernel_features();
    options.max_sockets = 1024;
    return options;
  }

  Worker& worker() { return *worker_; }
  Worker* operator->() { return worker_.get(); }
  operator Worker&() { return *worker_; }  // NOLINT(google-explicit-constructor)
  Ring& ring() { return worker_->ring(); }

  /// Runs the loop until `done`, or until the patience is over, which is a failure.
  bool until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "waited in vain";
        return false;
      }
      worker_->turn(2);
    }
    return true;
  }
  /// Runs the loop until all pending events are processed.
  void settle(int turns = 8) {
    for (int i = 0; i < turns; ++i) worker_->turn(1);
  }
  /// As if the worker slept `ms` longer in its next wait, or in the present one.
  static void jump(uint64_t ms) { TestClock::jump(ms); }
  /// Chunks that are neither free nor posted.
  size_t chunks_out() {
    worker_->pool().take_remote_frees();
    return worker_->pool().leaked() - worker_->small_group().filled_slots() - worker_->large_group().filled_slots();
  }

 private:
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<ChunkPool::Use> use_;
};

/// A socket with its recorder, closed at the latest with the object.
class Client {
 public:
  explicit Client(Loop& loop) : socket(loop.worker(), recorder), loop_(loop) {}
  Client(Loop& loop, int fd) : Client(loop) { socket.adopt(fd); }
  ~Client() {
    recorder.clear_functions();
    close();
    recorder.kept.clear();
    wait_closed();
  }
  void close() {
    recorder.inside = true;
    socket.close();
    recorder.inside = false;
  }
  void abort() {
    recorder.inside = true;
    socket.abort();
    recorder.inside = false;
  }
  bool wait_closed() {
    return loop_.until([this] { return !socket.busy(); });
  }
  void send(std::string_view bytes) { socket.send(buffer_of(loop_->pool(), bytes)); }

  Recorder recorder;
  Socket socket;

 private:
  Loop& loop_;
};

}  // namespace sluice::test
