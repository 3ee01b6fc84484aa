#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alts_like/record_state.h"
#include "alts_like/secret_bytes.h"
#include "proxy/common/connection_limits.h"

namespace sluice {

/// Version of the serialized sessions. A process accepts sessions of its own version only.
inline constexpr uint16_t kMovingSessionVersion = 2;
/// Bound on a serialized session. Its queued output and the states of two record layers fit well.
inline constexpr size_t kMaxMovingSessionBytes = size_t{30} << 20;

/// Bound on the descriptors of a session.
inline constexpr size_t kMaxMovingFds = 10'000;

/// A session, or several that share connections to endpoints, between two processes, or on its way back: what they need
/// to continue, without anything that refers to their worker. It has keys, so its bytes are wiped.
struct MovingSession {
  MovingSession() = default;
  MovingSession(MovingSession&& other) noexcept { *this = static_cast<MovingSession&&>(other); }
  MovingSession& operator=(MovingSession&& other) noexcept {
    std::swap(kind, other.kind);
    std::swap(listeners, other.listeners);
    std::swap(endpoints, other.endpoints);
    std::swap(state, other.state);
    std::swap(fds, other.fds);
    return *this;
  }
  /// Closes the descriptors with a reset: peers must not take an end that nobody sent for the end of the stream.
  ~MovingSession();

  /// The descriptors, which the caller owns from now on.
  std::vector<int> take_fds() { return std::exchange(fds, {}); }

  enum class Kind : uint8_t {
    kTcp = 1,
    kHttp = 2,
    kTunnel = 3,  ///< A tunnel through an HTTP listener, without HTTP. Its state is that of kTcp.
  };

  /// An endpoint that it has a connection to.
  struct Endpoint {
    std::string upstream;  ///< The name.
    std::string address;
  };

  Kind kind = Kind::kTcp;
  /// The names of the listeners, one for each session: one session, or with kHttp any number.
  std::vector<std::string> listeners;
  std::vector<Endpoint> endpoints;
  SecretBytes state;  ///< Written and read by this kind of session.
  /// The client's connection, then those to the endpoints; kHttp has an order of its own. Owned, unless -1.
  std::vector<int> fds;
};

/// The beginning of the state of kTcp and kTunnel. The client's transport and the endpoint's follow
/// (Transport::write_state).
struct ForwardingState {
  uint64_t age_ms = 0;
  uint64_t quiet_ms = 0;         ///< Time since data last moved.
  std::optional<Source> source;  ///< The client's, if the listener counts it.

  void write(StateWriter& out) const;
  /// Reads what write() has written. If that is malformed, `in` reports it.
  static ForwardingState read(StateReader& in);
};

/// Takes the sessions that leave a worker for another process.
class Departures {
 public:
  /// Whether a session may begin to leave now. It limits how many are under way at the same time.
  virtual bool has_room() const = 0;
  /// Called by any worker.
  virtual void depart(unsigned worker, MovingSession session) = 0;

 protected:
  ~Departures() = default;
};

}  // namespace sluice
