#include "net/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {

namespace {

bool set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

void set_stream_options(int fd, const ListenOptions& options) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, options.nodelay);
  // 0 is the system's default (tcp(7), since Linux 3.12).
  set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<int>(options.unsent_bytes));
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, options.keepalive_idle_s > 0);
  if (options.keepalive_idle_s == 0) return;
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, options.keepalive_idle_s);
  if (options.keepalive_interval_s) set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, options.keepalive_interval_s);
  if (options.keepalive_probes) set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, options.keepalive_probes);
}

// Before listen(): until then nobody can connect, whatever the umask has permitted.
bool set_file_mode(const sockaddr* address, uint32_t mode) {
  if (mode == 0 || address->sa_family != AF_UNIX) return true;
  const char* const path = reinterpret_cast<const sockaddr_un*>(address)->sun_path;
  return path[0] == '\0' || chmod(path, mode) == 0;
}

}  // namespace

absl::StatusOr<int> open_listener(const sockaddr* address, socklen_t length, const ListenOptions& options) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "socket");
  const bool tcp = address->sa_family != AF_UNIX;
  if (tcp) {
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (!set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1)) {
      const int error = errno;
      ::close(fd);
      return absl::ErrnoToStatus(error, "SO_REUSEPORT");
    }
    if (address->sa_family == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, options.ipv6_only);
    set_stream_options(fd, options);
  }
  if (bind(fd, address, length) != 0 || !set_file_mode(address, options.file_mode) ||
      listen(fd, options.backlog) != 0) {
    const int error = errno;
    ::close(fd);
    return absl::ErrnoToStatus(error, "bind");
  }
  return fd;
}

void set_listen_options(int fd, const ListenOptions& options) {
  int family = 0;
  socklen_t length = sizeof family;
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length);
  if (family != AF_UNIX) set_stream_options(fd, options);
  listen(fd, options.backlog);
}

ino_t socket_inode(int fd) {
  struct stat file{};
  fstat(fd, &file);
  return file.st_ino;
}

Listener::Listener(Ring& ring, TimerWheel& timers, Owner& owner, int fd, bool shared)
    : ring_(ring),
      timers_(timers),
      owner_(owner),
      fd_(fd),
      shared_(shared),
      retry_([](void* self) { static_cast<Listener*>(self)->resume(); }, this),
      look_([](void* self) { static_cast<Listener*>(self)->look_again(); }, this) {}

Listener::~Listener() {
  if (fd_ >= 0) ::close(fd_);
}

void Listener::start() { arm(); }

void Listener::arm() {
  if (armed_ || stopped_ || leave_ != Leave::kNo) return;
  const uint32_t accepting = owner_.accepting();
  if (accepting == 0) return pause();
  armed_ = true;
  paused_ = false;
  // Accepted descriptors stay blocking: on a non-blocking one, io_uring fails a send that must wait with EAGAIN.
  single_shot_ = shared_ || accepting != kAll;
  if (single_shot_) {
    ring_.accept_once(this, fd_, SOCK_CLOEXEC);
  } else {
    ring_.accept_multishot(this, fd_, SOCK_CLOEXEC);
  }
}

// Nobody else accepts from the descriptor, so a connection that waits cannot be gone when it is accepted.
void Listener::accept_backlog() {
  pollfd waiting{fd_, POLLIN, 0};
  for (int i = 0; i < kMaxBacklog && !shared_ && owner_.accepting() > 0 && poll(&waiting, 1, 0) == 1; ++i) {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    owner_.on_accepted(*this, fd);
  }
}

void Listener::stop(bool leave_backlog) {
  if (std::exchange(stopped_, true)) return;
  leaves_backlog_ = leave_backlog;
  retry_.cancel();
  look_.cancel();
  if (armed_) ring_.cancel_fd(nullptr, fd_);
  continue_stopping();
}

// The kernel resets the connections that wait when the descriptor is closed, so nothing comes between the last look and
// that.
void Listener::continue_stopping() {
  if (armed_ || burst_in_flight_ > 0 || fd_ < 0) return;
  if (!leaves_backlog_) accept_backlog();
  ::close(std::exchange(fd_, -1));
}

void Listener::review() {
  if (single_shot_ || stopped_ || leave_ != Leave::kNo || owner_.accepting() == kAll) return;
  arm_again();
}

// In the current mode. What waits is accepted then.
void Listener::arm_again() {
  if (!armed_) return;
  ring_.cancel_fd(nullptr, fd_);  // Its completion arms again.
  reviewed_ = true;
}

void Listener::pause() {
  paused_ = true;
  timers_.arm(retry_, timers_.now_ms() + kRetryMs);
}

void Listener::resume() {
  if (!paused_ || leave_ != Leave::kNo) return;
  retry_.cancel();
  arm();
}

void Listener::leave() {
  if (stopped_ || leave_ != Leave::kNo) return;
  leave_ = Leave::kCanceling;
  retry_.cancel();
  look_.cancel();
  paused_ = false;
  if (armed_) ring_.cancel_fd(nullptr, fd_);
  reviewed_ = armed_;
  continue_leaving();
}

// Called when nothing may be in flight any more.
void Listener::continue_leaving() {
  if (armed_ || burst_in_flight_ > 0 || stopped_ || leave_ == Leave::kDone) return;
  if (!accepts_now_) {
    leave_ = Leave::kDone;
    return;
  }
  leave_ = Leave::kTaking;
  ++burst_in_flight_;
  ring_.accept_now(this, fd_, SOCK_CLOEXEC);
}

void Listener::reclaim() {
  leave_ = Leave::kNo;
  arm();
  looks_left_ = kLooks;
  timers_.arm(look_, timers_.now_ms() + kRetryMs);
}

void Listener::look_again() {
  if (stopped_ || leave_ != Leave::kNo || looks_left_ == 0) return;
  --looks_left_;
  timers_.arm(look_, timers_.now_ms() + kRetryMs);
  arm_again();
}

// A loaded kernel takes one connection at a time for a multishot: it then queues behind the pending work of all sockets
// before it takes the next. A thousand clients that connect at once would keep the ones behind them waiting for a
// second. So connections that wait are also accepted directly, a bounded number in each turn.
void Listener::accept_burst() {
  if (!accepts_now_ || !armed_ || shared_ || stopped_ || leave_ != Leave::kNo || burst_in_flight_ > 0) return;
  // A bound includes the connection for which accepting is armed.
  uint32_t most = owner_.accepting();
  if (most != kAll && most > 0) --most;
  most = std::min<uint32_t>(most, burst_);
  for (; burst_in_flight_ < most; ++burst_in_flight_) ring_.accept_now(this, fd_, SOCK_CLOEXEC);
  burst_ = static_cast<uint8_t>(2 * std::min<int>(burst_, kMaxBurst / 2));
}

void Listener::complete(Op op, Completion completion) {
  if (op == Op::kAcceptNow) {
    --burst_in_flight_;
    if (completion.res == -EINVAL) accepts_now_ = false;
    if (completion.res == -EAGAIN) burst_ = kFirstBurst;
    if (completion.res == -EINVAL || completion.res == -EAGAIN) {
      if (leave_ == Leave::kTaking) leave_ = Leave::kDone;
      if (leave_ == Leave::kCanceling) continue_leaving();
      if (stopped_) continue_stopping();
      return;
    }
  } else if (!completion.more()) {
    armed_ = false;
  }
  take(completion);
  if (stopped_) return continue_stopping();
  if (leave_ != Leave::kNo) return continue_leaving();
  // Any other error (-ECONNABORTED, a multishot ended by overflow) affects at most one connection: continue.
  if (!armed_ && !paused_) arm();
  if (completion.more_waiting()) accept_burst();
}

void Listener::take(Completion completion) {
  if (completion.res >= 0) {
    errors_ = 0;
    owner_.on_accepted(*this, completion.res);
  } else if (!stopped_ && !std::exchange(reviewed_, false) && completion.res != -ECANCELED) {
    // -ECANCELED: another listener has stopped on a duplicate of this descriptor. A cancel by descriptor finds the
    // operations of the file behind it.
    // A persistent error, such as EINVAL after another process shut the socket down, would recur immediately forever.
    const bool too_many_errors = ++errors_ >= kMaxErrors;
    if (too_many_errors || completion.res == -EMFILE || completion.res == -ENFILE || completion.res == -ENOBUFS ||
        completion.res == -ENOMEM) {
      errors_ = 0;
      pause();
      owner_.on_accept_paused(*this, -completion.res);
      return;
    }
  }
}

}  // namespace sluice
