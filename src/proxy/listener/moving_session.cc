#include "proxy/listener/moving_session.h"

#include <sys/socket.h>
#include <unistd.h>

namespace sluice {

MovingSession::~MovingSession() {
  for (const int fd : fds) {
    const linger reset{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    ::close(fd);
  }
}

}  // namespace sluice
