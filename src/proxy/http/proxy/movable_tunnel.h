#pragma once

#include <cstddef>

#include "proxy/listener/moving_session.h"
#include "proxy/transport/transport.h"

namespace sluice {

/// A tunnel between a stream of a client's connection and a connection to an endpoint, as the client's HttpSession sees
/// it when all of that moves to another process.
class MovableTunnel {
 public:
  /// Whether both directions are open, and nothing else is in progress.
  virtual bool can_move() const = 0;
  /// Starts to detach the endpoint's connection. HttpSession::continue_moving() follows, or HttpSession::stay() if the
  /// connection ends.
  virtual void begin_moving() = 0;
  /// Continues here, if it was about to move.
  virtual void stay() = 0;
  /// Passes on what waits between the client's stream and the endpoint's transport. False: something still waits.
  virtual bool pass_all_on() = 0;
  /// Bytes that wait in the client's stream.
  virtual size_t queued() const = 0;

  virtual Transport& endpoint_transport() = 0;
  virtual MovingSession::Endpoint endpoint_names() const = 0;
  /// Without the source, which is the session's.
  virtual ForwardingState forwarding_state() const = 0;
  /// The tunnel has moved: the descriptor was taken from the transport. Neither its stream nor the transport may be
  /// used from then on.
  virtual void depart() = 0;

  // Called by the connection to the endpoint.
  virtual void on_endpoint_detached() = 0;
  virtual void on_endpoint_ends() = 0;

 protected:
  ~MovableTunnel() = default;
};

}  // namespace sluice
