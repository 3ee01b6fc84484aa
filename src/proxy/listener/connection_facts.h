// What the table of connections shows of one session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/common/peer_address.h"
#include "proxy/metrics/l4_counters.h"

namespace sluice {

/// What a client's connection is doing.
enum class ConnectionState : uint8_t {
  kHandshake,   ///< A PROXY header or a handshake is awaited.
  kInspecting,  ///< The first bytes are, which tell the route or the HTTP version.
  kConnecting,  ///< To an endpoint.
  kForwarding,
  kRequest,   ///< A request is in progress, or its head is arriving.
  kIdle,      ///< It waits for a request.
  kPaused,    ///< It holds more than its share of memory, and is not read.
  kMoving,    ///< To another process.
  kDraining,  ///< It ends with what is in progress.
  kClosing,
};
inline constexpr int kConnectionStateCount = 10;
const char* connection_state_name(ConnectionState state);

/// What is known of a session without a system call or an allocation. Times are those of Worker::now_ms().
struct ConnectionFacts {
  SessionKind kind = SessionKind::kTcp;
  ConnectionState state = ConnectionState::kHandshake;
  uint32_t streams = 0;  ///< Requests and tunnels in progress.
  uint64_t started_ms = 0;
  uint64_t active_ms = 0;            ///< When data last moved.
  size_t memory_bytes = 0;           ///< What is counted against its share, and what waits to be sent.
  size_t queued_bytes = 0;           ///< What waits to be sent.
  std::string_view protection = {};  ///< `TLSv1.3` and the like, a string literal; empty: none.
};

/// What takes longer to find out.
struct ConnectionDetails {
  std::optional<uint64_t> bytes_in, bytes_out;  ///< That the client sent, and acknowledged, as the kernel counts them.
  std::string upstream, endpoint;               ///< Empty without one.
};

}  // namespace sluice
