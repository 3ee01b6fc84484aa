#pragma once

#include <cstdint>

#include "alts_like/record_state.h"
#include "proxy/common/connection_limits.h"
#include "proxy/common/peer_address.h"
#include "proxy/listener/moving_session.h"
#include "proxy/transport/transport.h"

namespace sluice {

class ClientAcceptor;
class HttpSession;
class UpstreamConnection;

/// The client's side of a tunnel that settles.
struct SettlingClient {
  Transport& transport;
  uint64_t started_ms;  ///< When the connection began.
  SourceLimit::Place source_place;
  PeerAddress peer;  ///< Not set: what the kernel says.
};

/// What a stream of HTTP/2 to an endpoint takes along when it moves, apart from the states of the connections.
struct StreamPairState {
  static constexpr uint64_t kNever = UINT64_MAX;

  uint64_t quiet_ms = 0;         ///< Time since data last moved.
  uint64_t left_ms = kNever;     ///< Time left for the whole exchange.
  uint64_t idle_timeout_ms = 0;  ///< Of the route; 0: none.
  bool request_ended = false;
  bool tunnel = false;

  void write(StateWriter& out) const;
  /// Reads what write() has written. If that is malformed, `in` reports it.
  static StreamPairState read(StateReader& in);
};

/// A stream of a client's connection and what it is connected to, as seen when all of that moves to another process:
/// see MovingGroup. It is a tunnel with a connection to the endpoint of its own, or it shares an HTTP/2 connection to
/// the endpoint with other streams.
class MovableStream {
 public:
  /// Whether the response has begun and has not ended, and nothing else is in progress; of a tunnel with its own
  /// connection: whether both directions are open.
  virtual bool can_move() const = 0;
  /// Null once the client's stream is released.
  virtual HttpSession* client_session() = 0;
  /// Null if it has a connection of its own.
  virtual UpstreamConnection* shared_connection() = 0;
  /// Of a stream that shares a connection.
  virtual StreamPairState pair_state() const { return {}; }
  /// It has moved. Neither its streams nor the transport may be used from then on.
  virtual void depart() = 0;

  // The rest is for tunnels with a connection of their own.
  /// Without the source, which is the session's.
  virtual ForwardingState forwarding_state() const { return {}; }
  /// Starts to detach the endpoint's connection. HttpSession::continue_moving() follows, or HttpSession::stay() if the
  /// connection ends.
  virtual void begin_moving() {}
  /// Continues here, if it was about to move.
  virtual void stay() {}
  /// Passes on what waits between the client's stream and the endpoint's transport. False: something still waits.
  virtual bool pass_all_on() { return true; }
  /// Precondition: it has a connection of its own.
  virtual Transport& endpoint_transport() = 0;
  virtual MovingSession::Endpoint endpoint_names() const = 0;
  /// Whether it may settle: can_move(), and nothing is left to be done for its request but to note its end.
  virtual bool can_settle() const { return false; }
  /// Continues as a SettledTunnel of `acceptor`, and departs. `client`: the client's connection. Preconditions:
  /// can_settle(), both connections are detached, and nothing waits in them.
  virtual void settle_as(ClientAcceptor& /*acceptor*/, SettlingClient&& /*client*/) {}

  // Called by the connection to the endpoint.
  virtual void on_endpoint_detached() {}
  virtual void on_endpoint_ends() {}

 protected:
  ~MovableStream() = default;
};

}  // namespace sluice
