#include "proxy/transport/upstream_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace sluice {

namespace {

void set_option(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

// Rounds up to whole seconds, the unit of the kernel's options.
int seconds(config::Duration duration) { return static_cast<int>((duration.count() + 999) / 1000); }

}  // namespace

int open_upstream_socket(const config::Upstream& upstream, int family) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || family == AF_UNIX) return fd;
  if (upstream.nodelay) set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (upstream.keepalive.idle.count() > 0) {
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds(upstream.keepalive.idle));
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds(upstream.keepalive.interval));
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, static_cast<int>(upstream.keepalive.probes));
  }
  return fd;
}

}  // namespace sluice
