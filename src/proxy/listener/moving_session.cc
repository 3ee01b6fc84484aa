#include "proxy/listener/moving_session.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <span>

namespace sluice {

MovingSession::~MovingSession() {
  for (const int fd : fds) {
    if (fd < 0) continue;
    const linger reset{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    ::close(fd);
  }
}

void ForwardingState::write(StateWriter& out) const {
  out.u64(age_ms);
  out.u64(quiet_ms);
  out.u8(source ? (source->ipv6 ? 16 : 4) : 0);
  if (source) out.bytes(source->bytes);
}

ForwardingState ForwardingState::read(StateReader& in) {
  ForwardingState state{.age_ms = in.u64(), .quiet_ms = in.u64(), .source = {}};
  const uint8_t address_bytes = in.u8();
  if (address_bytes == 0) return state;
  Source& source = state.source.emplace();
  source.ipv6 = address_bytes == 16;
  const std::span<const uint8_t> bytes = in.bytes(source.bytes.size());
  std::copy(bytes.begin(), bytes.end(), source.bytes.begin());
  return state;
}

}  // namespace sluice
