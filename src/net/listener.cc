#include "net/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

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
  if (options.nodelay) set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (options.unsent_bytes > 0) {
    set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<int>(options.unsent_bytes));
  }
  if (options.keepalive_idle_s == 0) return;
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, options.keepalive_idle_s);
  if (options.keepalive_interval_s) set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, options.keepalive_interval_s);
  if (options.keepalive_probes) set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, options.keepalive_probes);
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
  if (bind(fd, address, length) != 0 || listen(fd, options.backlog) != 0) {
    const int error = errno;
    ::close(fd);
    return absl::ErrnoToStatus(error, "bind");
  }
  return fd;
}

Listener::Listener(Ring& ring, TimerWheel& timers, Owner& owner, int fd, bool shared)
    : ring_(ring),
      timers_(timers),
      owner_(owner),
      fd_(fd),
      shared_(shared),
      retry_([](void* self) { static_cast<Listener*>(self)->resume(); }, this) {}

Listener::~Listener() {
  if (fd_ >= 0) ::close(fd_);
}

void Listener::start() { arm(); }

void Listener::arm() {
  if (armed_ || stopped_) return;
  const Accepting accepting = owner_.accepting();
  if (accepting == Accepting::kNone) return pause();
  armed_ = true;
  paused_ = false;
  // Accepted descriptors stay blocking: on a non-blocking one, io_uring fails a send that must wait with EAGAIN.
  single_shot_ = shared_ || accepting == Accepting::kOne;
  if (single_shot_) {
    ring_.accept_once(this, fd_, SOCK_CLOEXEC);
  } else {
    ring_.accept_multishot(this, fd_, SOCK_CLOEXEC);
  }
}

void Listener::stop() {
  if (stopped_) return;
  stopped_ = true;
  retry_.cancel();
  if (armed_) ring_.cancel_fd(nullptr, fd_);
  ring_.close(fd_);
  fd_ = -1;
}

void Listener::review() {
  if (!armed_ || single_shot_ || stopped_ || owner_.accepting() == Accepting::kMany) return;
  ring_.cancel_fd(nullptr, fd_);  // Its completion arms again with the current mode.
  reviewed_ = true;
}

void Listener::pause() {
  paused_ = true;
  timers_.arm(retry_, timers_.now_ms() + kRetryMs);
}

void Listener::resume() {
  if (!paused_) return;
  retry_.cancel();
  arm();
}

void Listener::complete(Completion completion) {
  if (!completion.more()) armed_ = false;
  if (completion.res >= 0) {
    errors_ = 0;
    if (stopped_) {
      ::close(completion.res);
    } else {
      owner_.on_accepted(*this, completion.res);
    }
  } else if (!stopped_ && !std::exchange(reviewed_, false)) {
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
  // Any other error (-ECONNABORTED, a multishot ended by overflow) affects at most one connection: continue.
  if (!armed_ && !paused_) arm();
}

}  // namespace sluice
