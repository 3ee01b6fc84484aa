#include "net/listener.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "test/net/loop.h"

namespace sluice {
namespace {

using test::Loop;
using test::Peer;
using ::testing::ElementsAre;

/// Keeps the connections that it accepts.
class Acceptor : public Listener::Owner {
 public:
  virtual ~Acceptor() = default;
  std::vector<Peer> accepted;
  std::vector<int> pauses;
  std::function<void(Listener&)> after_accept, after_pause;
  std::function<uint32_t()> how_many;

  void on_accepted(Listener& listener, int fd) override {
    accepted.emplace_back(fd);
    if (after_accept) after_accept(listener);
  }
  uint32_t accepting() override { return how_many ? how_many() : Listener::kAll; }
  void on_accept_paused(Listener& listener, int error) override {
    pauses.push_back(error);
    if (after_pause) after_pause(listener);
  }
};

int open_tcp(uint16_t port = 0, ListenOptions options = {}) {
  const sockaddr_in address = test::loopback(port);
  const absl::StatusOr<int> fd = open_listener(test::generic(address), sizeof address, options);
  EXPECT_TRUE(fd.ok()) << fd.status();
  return fd.value_or(-1);
}

/// Whether the kernel has Ring::accept_now: Linux 6.10.
bool has_accept_now() {
  utsname system;
  int major = 0, minor = 0;
  SLUICE_CHECK(uname(&system) == 0 && std::sscanf(system.release, "%d.%d", &major, &minor) == 2);
  return major > 6 || (major == 6 && minor >= 10);
}

/// An abstract Unix address that no other process uses.
struct UnixAddress {
  UnixAddress() {
    static int count = 0;
    const std::string name = "sluice-listener-test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&address); }
  Peer connect() const {
    Peer peer(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(peer.fd(), data(), length), 0) << strerror(errno);
    return peer;
  }
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t length;
};

int option_of(int fd, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  getsockopt(fd, level, name, &value, &length);
  return value;
}

/// Lowers the descriptor limit to those that are open and `spare` more, until it is destroyed.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t spare) {
    getrlimit(RLIMIT_NOFILE, &before_);
    // The lowest free number is the first one that the limit forbids.
    const int next = ::dup(0);
    ::close(next);
    const rlimit now{static_cast<rlim_t>(next) + spare, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// ---- Opening ----

TEST(OpenListenerTest, AcceptedSocketsInheritOptions) {
  Loop loop;
  Acceptor owner;
  const int fd =
      open_tcp(0, {.nodelay = true, .keepalive_idle_s = 77, .keepalive_interval_s = 5, .keepalive_probes = 3});
  Listener listener(loop->ring(), loop->timers(), owner, fd, false);
  listener.start();
  const Peer peer(test::tcp_connect(test::port_of(fd)));
  loop.until([&] { return owner.accepted.size() == 1; });
  const int accepted = owner.accepted[0].fd();
  EXPECT_NE(option_of(accepted, IPPROTO_TCP, TCP_NODELAY), 0);
  EXPECT_NE(option_of(accepted, SOL_SOCKET, SO_KEEPALIVE), 0);
  EXPECT_EQ(option_of(accepted, IPPROTO_TCP, TCP_KEEPIDLE), 77);
  EXPECT_EQ(option_of(accepted, IPPROTO_TCP, TCP_KEEPINTVL), 5);
  EXPECT_EQ(option_of(accepted, IPPROTO_TCP, TCP_KEEPCNT), 3);
  // io_uring fails a send that must wait on a non-blocking socket.
  EXPECT_EQ(fcntl(accepted, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(accepted, F_GETFD) & FD_CLOEXEC, 0);
}

TEST(OpenListenerTest, OptionsCanBeOff) {
  Loop loop;
  Acceptor owner;
  const int fd = open_tcp(0, {.nodelay = false});
  Listener listener(loop->ring(), loop->timers(), owner, fd, false);
  listener.start();
  const Peer peer(test::tcp_connect(test::port_of(fd)));
  loop.until([&] { return owner.accepted.size() == 1; });
  EXPECT_EQ(option_of(owner.accepted[0].fd(), IPPROTO_TCP, TCP_NODELAY), 0);
  EXPECT_EQ(option_of(owner.accepted[0].fd(), SOL_SOCKET, SO_KEEPALIVE), 0);
}

TEST(OpenListenerTest, ErrorsLeaveNothingOpen) {
  const size_t descriptors = test::open_descriptors();
  const int taken = test::tcp_listen();  // Without SO_REUSEPORT.
  const sockaddr_in address = test::loopback(test::port_of(taken));
  const absl::StatusOr<int> fd = open_listener(test::generic(address), sizeof address, {});
  EXPECT_THAT(std::string(fd.status().message()), ::testing::HasSubstr("already in use"));
  ::close(taken);
  sockaddr_un nowhere{.sun_family = AF_UNIX, .sun_path = "/nonexistent/directory/socket"};
  EXPECT_FALSE(open_listener(reinterpret_cast<sockaddr*>(&nowhere), sizeof nowhere, {}).ok());
  sockaddr_in unknown = address;
  unknown.sin_family = AF_MAX;
  EXPECT_FALSE(open_listener(test::generic(unknown), sizeof unknown, {}).ok());
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

// ---- Accepting ----

TEST(ListenerTest, MultishotAcceptsAll) {
  Loop loop;
  Acceptor owner;
  const int fd = open_tcp();
  Listener listener(loop->ring(), loop->timers(), owner, fd, false);
  listener.start();
  std::vector<Peer> peers;
  for (int i = 0; i < 200; ++i) peers.emplace_back(test::tcp_connect(test::port_of(fd)));
  loop.until([&] { return owner.accepted.size() == 200; });
  // Each is another connection.
  std::vector<uint16_t> ports, peer_ports;
  for (const Peer& peer : peers) ports.push_back(test::port_of(peer.fd()));
  for (const Peer& accepted : owner.accepted) {
    sockaddr_in from{};
    socklen_t length = sizeof from;
    getpeername(accepted.fd(), reinterpret_cast<sockaddr*>(&from), &length);
    peer_ports.push_back(ntohs(from.sin_port));
  }
  EXPECT_THAT(peer_ports, ::testing::UnorderedElementsAreArray(ports));
}

TEST(ListenerTest, WorkersShareAPort) {
  Loop one;
  {
    Loop two;
    Acceptor first, second;
    const int fd = open_tcp();
    Listener a(one->ring(), one->timers(), first, fd, false),
        b(two->ring(), two->timers(), second, open_tcp(test::port_of(fd)), false);
    a.start();
    b.start();
    std::vector<Peer> peers;
    for (int i = 0; i < 200; ++i) peers.emplace_back(test::tcp_connect(test::port_of(fd)));
    one.until([&] {
      two->turn(0);
      return first.accepted.size() + second.accepted.size() == 200;
    });
    // By a hash of the addresses: none gets all.
    EXPECT_GT(first.accepted.size(), 20u);
    EXPECT_GT(second.accepted.size(), 20u);
  }
}

// A Unix listener is shared by the workers, so each accepts one connection at a time.
TEST(ListenerTest, WorkersShareAUnixListener) {
  Loop one;
  {
    Loop two;
    Acceptor first, second;
    const UnixAddress address;
    const absl::StatusOr<int> fd = open_listener(address.data(), address.length, {});
    ASSERT_TRUE(fd.ok()) << fd.status();
    Listener a(one->ring(), one->timers(), first, *fd, true), b(two->ring(), two->timers(), second, ::dup(*fd), true);
    a.start();
    b.start();
    std::vector<Peer> peers;
    for (int i = 0; i < 100; ++i) {
      peers.push_back(address.connect());
      // Any worker that is not busy.
      for (int turn = 0; turn < 3; ++turn) (i % 2 ? one : two)->turn(0);
    }
    one.until([&] {
      two->turn(0);
      return first.accepted.size() + second.accepted.size() == 100;
    });
    EXPECT_GT(first.accepted.size(), 5u);
    EXPECT_GT(second.accepted.size(), 5u);
  }
}

// ---- Stopping ----

TEST(ListenerTest, StopWhileArmed) {
  const size_t descriptors = test::open_descriptors();
  {
    Loop loop;
    Acceptor owner;
    const int fd = open_tcp();
    const uint16_t port = test::port_of(fd);
    Listener listener(loop->ring(), loop->timers(), owner, fd, false);
    listener.start();
    loop.settle();
    EXPECT_FALSE(listener.stopped());
    listener.stop();
    listener.stop();
    loop.until([&] { return listener.stopped(); });
    EXPECT_EQ(listener.fd(), -1);
    loop.settle();
    const int late = test::tcp_socket();
    const sockaddr_in address = test::loopback(port);
    EXPECT_NE(::connect(late, test::generic(address), sizeof address), 0);
    EXPECT_EQ(errno, ECONNREFUSED);
    ::close(late);
    listener.resume();
    listener.start();
    loop.settle();
    EXPECT_TRUE(listener.stopped());
    EXPECT_TRUE(owner.accepted.empty());
  }
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

TEST(ListenerTest, StopBeforeStart) {
  const size_t descriptors = test::open_descriptors();
  {
    Loop loop;
    Acceptor owner;
    Listener never(loop->ring(), loop->timers(), owner, open_tcp(), false);
    Listener listener(loop->ring(), loop->timers(), owner, open_tcp(), false);
    listener.stop();
    EXPECT_TRUE(listener.stopped());
    loop.settle();
  }
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

// Defect: a connection that came while accepting stopped, in the rest of that turn of the loop, was reset.
TEST(ListenerTest, ConnectionWhileStoppingReachesTheOwner) {
  for (const bool started : {true, false}) {
    Loop loop;
    Acceptor owner;
    const int fd = open_tcp();
    const uint16_t port = test::port_of(fd);
    Listener listener(loop->ring(), loop->timers(), owner, fd, false);
    if (started) listener.start();
    loop.settle();
    Peer early(test::tcp_connect(port));
    listener.stop();
    EXPECT_EQ(listener.stopped(), !started);
    if (started) {
      Peer late(test::tcp_connect(port));
      loop.until([&] { return listener.stopped(); });
      EXPECT_EQ(owner.accepted.size(), 2u);
      late.read();
      EXPECT_FALSE(late.ended || late.error != 0);
    }
    early.read();
    EXPECT_FALSE(early.ended || early.error != 0);
    EXPECT_EQ(listener.fd(), -1);
  }
}

// The kernel has accepted, and the worker stopped before the completion: the connection must not be left open.
// Defect: connections that the kernel had accepted, or that waited in the backlog, were closed when accepting stopped.
TEST(ListenerTest, AcceptedAfterTheStopReachesTheOwner) {
  for (const bool shared : {false, true}) {
    const size_t descriptors = test::open_descriptors();
    {
      Loop loop;
      Acceptor owner;
      const int fd = open_tcp();
      Listener listener(loop->ring(), loop->timers(), owner, fd, shared);
      listener.start();
      loop.settle();
      Peer peer(test::tcp_connect(test::port_of(fd)));
      loop.ring().wait(50'000'000);  // The completion is in the queue, and not processed.
      listener.stop();
      loop.until([&] { return listener.stopped(); });
      EXPECT_EQ(owner.accepted.size(), 1u);
      peer.read();
      EXPECT_FALSE(peer.ended || peer.error != 0);
    }
    EXPECT_EQ(test::open_descriptors(), descriptors);
  }
}

TEST(ListenerTest, StopFromInsideOnAccepted) {
  for (const bool shared : {false, true}) {
    Loop loop;
    Acceptor owner;
    const int fd = open_tcp();
    Listener listener(loop->ring(), loop->timers(), owner, fd, shared);
    owner.after_accept = [](Listener& l) { l.stop(); };
    listener.start();
    std::vector<Peer> peers;
    for (int i = 0; i < 5; ++i) peers.emplace_back(test::tcp_connect(test::port_of(fd)));
    loop.until([&] { return listener.stopped(); });
    loop.settle();
    // The backlog of a shared socket is for the others who accept from it; here there are none.
    const size_t accepted = shared ? 1 : 5;
    EXPECT_EQ(owner.accepted.size(), accepted);
    for (Peer& peer : peers) peer.read();
    EXPECT_EQ(std::count_if(peers.begin(), peers.end(), [](const Peer& p) { return p.ended || p.error != 0; }),
              5 - static_cast<ptrdiff_t>(accepted));
  }
}

// ---- Many connections at once ----

// Defect: a kernel with much other work takes one connection for a multishot, and the next only after that work. Each
// of a thousand clients that connected at once waited for those before it, the last one for more than a second. Here
// the multishot takes one connection and no other.
TEST(ListenerTest, WaitingConnectionsAreAcceptedDirectly) {
  if (!has_accept_now()) GTEST_SKIP() << "needs Linux 6.10";
  Loop loop;
  Acceptor owner;
  const int fd = open_tcp();
  std::vector<Peer> peers;
  for (int i = 0; i < 100; ++i) peers.emplace_back(test::tcp_connect(test::port_of(fd)));
  const int first = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
  ASSERT_GE(first, 0);
  loop.ring().inject(Op::kAccept, first, IORING_CQE_F_MORE | IORING_CQE_F_SOCK_NONEMPTY);
  Listener listener(loop->ring(), loop->timers(), owner, fd, false);
  listener.start();
  int turns = 0;
  for (; owner.accepted.size() < 100 && turns < 100; ++turns) loop->turn(0);
  EXPECT_EQ(owner.accepted.size(), 100u);
  EXPECT_LE(turns, 20);
  loop.settle();
  listener.stop();
  EXPECT_FALSE(listener.stopped());  // The multishot has not ended.
  listener.complete(Op::kAccept, {-ECANCELED, 0});
  EXPECT_TRUE(listener.stopped());
}

// Before Linux 6.10 the kernel refuses direct accepts. The multishot accepts all connections.
TEST(ListenerTest, KernelsWithoutDirectAccepts) {
  Loop loop;
  Acceptor owner;
  const int fd = open_tcp();
  for (int i = 0; i < 100; ++i) loop.ring().inject(Op::kAcceptNow, -EINVAL);
  Listener listener(loop->ring(), loop->timers(), owner, fd, false);
  listener.start();
  std::vector<Peer> peers;
  for (int i = 0; i < 50; ++i) peers.emplace_back(test::tcp_connect(test::port_of(fd)));
  loop.until([&] { return owner.accepted.size() == 50; });
  EXPECT_TRUE(owner.pauses.empty());
}

TEST(ListenerTest, StopsDuringDirectAccepts) {
  if (!has_accept_now()) GTEST_SKIP() << "needs Linux 6.10";
  Loop loop;
  Acceptor owner;
  const int fd = open_tcp();
  std::vector<Peer> peers;
  for (int i = 0; i < 50; ++i) peers.emplace_back(test::tcp_connect(test::port_of(fd)));
  Listener listener(loop->ring(), loop->timers(), owner, fd, false);
  owner.after_accept = [](Listener& l) { l.stop(); };
  listener.start();
  loop.until([&] { return listener.stopped(); });
  loop.settle();
  EXPECT_EQ(owner.accepted.size(), 50u);
  for (Peer& peer : peers) peer.read();
  EXPECT_EQ(std::count_if(peers.begin(), peers.end(), [](const Peer& p) { return p.ended || p.error != 0; }), 0);
}

// ---- Out of descriptors ----

TEST(ListenerTest, RetriesAfterAPause) {
  for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
    Loop loop;
    Acceptor owner;
    const int fd = open_tcp();
    Listener listener(loop->ring(), loop->timers(), owner, fd, false);
    loop.ring().inject(Op::kAccept, -error);
    listener.start();
    loop.until([&] { return owner.pauses.size() == 1; });
    EXPECT_THAT(owner.pauses, ElementsAre(error));
    const Peer peer(test::tcp_connect(test::port_of(fd)));
    // By its own timer.
    loop.until([&] { return owner.accepted.size() == 1; });
    EXPECT_EQ(owner.pauses.size(), 1u);
  }
}

TEST(ListenerTest, ResumesAtOnce) {
  Loop loop;
  Acceptor owner;
  const int fd = open_tcp();
  Listener listener(loop->ring(), loop->timers(), owner, fd, false);
  for (int i = 0; i < 3; ++i) loop.ring().inject(Op::kAccept, -EMFILE);
  // From inside on_accept_paused too: descriptors may have been freed there.
  owner.after_pause = [](Listener& l) { l.resume(); };
  listener.start();
  const Peer peer(test::tcp_connect(test::port_of(fd)));
  loop.until([&] { return owner.accepted.size() == 1; });
  EXPECT_EQ(owner.pauses.size(), 3u);
  listener.resume();  // Not paused: nothing to do.
  const Peer second(test::tcp_connect(test::port_of(fd)));
  loop.until([&] { return owner.accepted.size() == 2; });
}

TEST(ListenerTest, StopsWhilePaused) {
  Loop loop;
  Acceptor owner;
  Listener listener(loop->ring(), loop->timers(), owner, open_tcp(), false);
  loop.ring().inject(Op::kAccept, -EMFILE);
  listener.start();
  loop.until([&] { return owner.pauses.size() == 1; });
  listener.stop();
  EXPECT_TRUE(listener.stopped());
  listener.resume();
  loop.settle();
  EXPECT_TRUE(listener.stopped());
}

// No error of one connection may end accepting.
TEST(ListenerTest, OtherErrorsConcernOneConnection) {
  for (const bool shared : {false, true}) {
    Loop loop;
    Acceptor owner;
    const int fd = open_tcp();
    Listener listener(loop->ring(), loop->timers(), owner, fd, shared);
    const int errors[] = {ECONNABORTED, EINTR,    EAGAIN, ECANCELED, EPROTO,     EPERM,
                          EINVAL,       ENETDOWN, EPIPE,  ETIMEDOUT, ECONNRESET, EHOSTUNREACH};
    for (const int error : errors) loop.ring().inject(Op::kAccept, -error);
    listener.start();
    const Peer peer(test::tcp_connect(test::port_of(fd)));
    loop.until([&] { return owner.accepted.size() == 1; });
    EXPECT_TRUE(owner.pauses.empty());
  }
}

// ---- As many as there is room for ----

// With room for three, no fourth is accepted however many wait; each that ends makes room for one.
TEST(ListenerTest, AcceptsNoMoreThanTheOwnerAllows) {
  for (const bool shared : {false, true}) {
    Loop loop;
    Acceptor owner;
    size_t left = 0;
    const auto room = [&] { return 3 + left - owner.accepted.size(); };
    owner.how_many = [&] { return room() > 0 ? 1u : 0u; };
    const int fd = open_tcp();
    Listener listener(loop->ring(), loop->timers(), owner, fd, shared);
    listener.start();
    std::vector<Peer> peers;
    for (int i = 0; i < 8; ++i) peers.emplace_back(test::tcp_connect(test::port_of(fd)));
    loop.until([&] { return owner.accepted.size() == 3; });
    loop.settle(30);
    EXPECT_EQ(owner.accepted.size(), 3u);
    for (; left < 4; ++left) {
      loop.until([&] { return owner.accepted.size() == 3 + left; });
      listener.resume();
      loop.settle();
      EXPECT_EQ(owner.accepted.size(), 3 + left);
    }
    // Without a call, by the retry.
    left = 5;
    loop.until([&] { return owner.accepted.size() == 8; });
    EXPECT_TRUE(owner.pauses.empty());
  }
}

// An armed multishot is ended by review(), and accepting continues one by one.
TEST(ListenerTest, ReviewEndsAMultishot) {
  Loop loop;
  Acceptor owner;
  auto how_many = Listener::kAll;
  owner.how_many = [&] { return how_many; };
  const int fd = open_tcp();
  Listener listener(loop->ring(), loop->timers(), owner, fd, false);
  listener.start();
  loop.settle();
  listener.review();  // Nothing changed.
  how_many = 0u;
  for (int i = 0; i < 3; ++i) listener.review();
  loop.settle();
  std::vector<Peer> peers;
  for (int i = 0; i < 3; ++i) peers.emplace_back(test::tcp_connect(test::port_of(fd)));
  loop.settle();
  EXPECT_TRUE(owner.accepted.empty());
  how_many = 1u;
  owner.after_accept = [&](Listener&) { how_many = 0u; };
  listener.resume();
  loop.until([&] { return owner.accepted.size() == 1; });
  loop.settle();
  EXPECT_EQ(owner.accepted.size(), 1u);
  how_many = Listener::kAll;
  owner.after_accept = nullptr;
  loop.until([&] { return owner.accepted.size() == 3; });
  // Stopped while the cancellation of a review is in progress.
  how_many = 1u;
  listener.review();
  listener.stop();
  loop.until([&] { return listener.stopped(); });
}

// A real case: the process has no descriptor left. Accepting pauses, and resumes when one becomes free.
TEST(ListenerTest, OutOfDescriptors) {
  for (const bool by_timer : {false, true}) {
    Loop loop;
    Acceptor owner;
    const int fd = open_tcp();
    Listener listener(loop->ring(), loop->timers(), owner, fd, false);
    std::vector<Peer> peers;
    for (int i = 0; i < 6; ++i) peers.emplace_back(test::tcp_socket());
    {
      const FewDescriptors few(3);
      listener.start();
      const sockaddr_in address = test::loopback(test::port_of(fd));
      for (const Peer& peer : peers) ASSERT_EQ(::connect(peer.fd(), test::generic(address), sizeof address), 0);
      loop.until([&] { return !owner.pauses.empty(); });
      EXPECT_THAT(owner.pauses[0], EMFILE);
      EXPECT_EQ(owner.accepted.size(), 3u);
      // One becomes free: one more connection is accepted.
      owner.accepted[0].close();
      if (!by_timer) listener.resume();
      loop.until([&] { return owner.accepted.size() == 4; });
      loop.until([&] { return owner.pauses.size() >= 2; });
    }
    loop.until([&] { return owner.accepted.size() == 6; });
  }
}

// Defect: a permanent accept error (here EINVAL, of a listening socket that was shut down) was armed again at once,
// forever: a worker at 100 % CPU.
TEST(ListenerTest, PermanentErrorsPauseAccepting) {
  Loop loop;
  Acceptor owner;
  const int fd = open_tcp();
  Listener listener(loop->ring(), loop->timers(), owner, fd, false);
  ::shutdown(fd, SHUT_RD);
  listener.start();
  loop.until([&] { return !owner.pauses.empty(); });
  EXPECT_THAT(owner.pauses, ::testing::Each(EINVAL));
  const uint64_t before = loop->counters().completions;
  loop.settle(20);
  EXPECT_LE(loop->counters().completions - before, owner.pauses.size() * (2 + Listener::kMaxErrors));
  // It is retried, and resumes when it can.
  loop.jump(Listener::kRetryMs + TimerWheel::kTickMs);
  const size_t pauses = owner.pauses.size();
  loop.until([&] { return owner.pauses.size() > pauses; });
  ASSERT_EQ(::listen(fd, 16), 0);
  loop.jump(Listener::kRetryMs + TimerWheel::kTickMs);
  const Peer peer(test::tcp_connect(test::port_of(fd)));
  loop.until([&] { return owner.accepted.size() == 1; });
}

// ---- Another process accepts from the same socket ----

class LeaveTest : public ::testing::TestWithParam<bool> {
 protected:
  // What one of the two has accepted.
  size_t accepted() const { return ours_.accepted.size() + theirs_.accepted.size(); }
  void stop(Listener& listener, Loop& loop) {
    listener.stop(/*leave_backlog=*/true);
    loop.until([&] { return listener.stopped(); });
  }
  Acceptor ours_, theirs_;
};
INSTANTIATE_TEST_SUITE_P(Modes, LeaveTest, ::testing::Bool(),
                         [](const auto& each) { return std::string(each.param ? "OneByOne" : "Multishot"); });

// Defect: for a new connection the kernel wakes one of the processes that wait. If that one stopped accepting just
// then, the connection waited until the next one arrived.
TEST_P(LeaveTest, NoConnectionIsForgotten) {
  if (!has_accept_now()) GTEST_SKIP() << "needs Linux 6.10";
  if (GetParam()) ours_.how_many = [] { return 1u; };
  Loop old_loop, new_loop;
  const int fd = open_tcp();
  const uint16_t port = test::port_of(fd);
  Listener theirs(new_loop.ring(), new_loop.worker().timers(), theirs_, fcntl(fd, F_DUPFD_CLOEXEC, 0), false);
  Listener ours(old_loop.ring(), old_loop.worker().timers(), ours_, fd, false);
  size_t connected = 0;
  for (int round = 0; round < 20; ++round) {
    ours.start();
    old_loop.settle(2);
    if (round == 0) theirs.start();  // Behind in the kernel's queue.
    new_loop.settle(2);
    const Peer peer(test::tcp_connect(port));
    ++connected;
    ours.leave();
    old_loop.until([&] { return ours.left(); });
    const auto found = [&] { return accepted() == connected; };
    for (int i = 0; i < 200 && !found(); ++i) {
      old_loop.settle(1);
      new_loop.settle(1);
    }
    ASSERT_TRUE(found()) << round;
    ours.reclaim();
    old_loop.settle(2);
  }
  EXPECT_FALSE(ours_.accepted.empty());
  stop(ours, old_loop);
  stop(theirs, new_loop);
}

TEST_P(LeaveTest, ReclaimAcceptsAgain) {
  if (!has_accept_now()) GTEST_SKIP() << "needs Linux 6.10";
  if (GetParam()) ours_.how_many = [] { return 1u; };
  Loop loop;
  const int fd = open_tcp();
  const uint16_t port = test::port_of(fd);
  Listener ours(loop.ring(), loop.worker().timers(), ours_, fd, false);
  ours.start();
  ours.leave();
  loop.until([&] { return ours.left(); });
  const Peer peer(test::tcp_connect(port));
  ours.resume();
  ours.review();
  loop.settle();
  EXPECT_EQ(ours_.accepted.size(), 0u);
  ours.reclaim();
  loop.until([&] { return ours_.accepted.size() == 1; });
  stop(ours, loop);
}

// Defect: after a new process had died, the first connection to the old one waited until the next one came. The kernel
// announces a connection to one of the rings that wait, and has announced it to the one of the process that was dead.
TEST_P(LeaveTest, ReclaimFindsWhatWasAnnouncedToAnother) {
  if (GetParam()) ours_.how_many = [] { return 2u; };
  const int fd = open_tcp();
  const uint16_t port = test::port_of(fd);
  // A ring of which nobody takes the completions: its accept is announced a connection, and does not run.
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  const pid_t dead = fork();
  if (dead == 0) {
    io_uring ring;
    if (io_uring_queue_init(4, &ring, 0) != 0) _exit(1);
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring);
    io_uring_prep_multishot_accept(sqe, fd, nullptr, nullptr, 0);
    io_uring_submit(&ring);
    (void)!write(ready[1], "x", 1);
    while (true) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(kill(dead, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(waitpid(dead, &status, WUNTRACED), dead);
  Loop loop;
  Listener ours(loop.ring(), loop.worker().timers(), ours_, fd, false);
  ours.start();
  ours.leave();
  loop.until([&] { return ours.left(); });
  ours.reclaim();
  loop.settle();
  const Peer peer(test::tcp_connect(port));
  loop.until([&] { return ours_.accepted.size() == 1; });
  EXPECT_EQ(ours_.accepted.size(), 1u);
  kill(dead, SIGKILL);
  waitpid(dead, &status, 0);
  for (const int end : ready) ::close(end);
  stop(ours, loop);
}

}  // namespace
}  // namespace sluice
