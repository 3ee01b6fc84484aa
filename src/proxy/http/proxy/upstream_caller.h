#pragma once

#include <cstdint>
#include <optional>

#include "proxy/config/model/overload.h"
#include "proxy/http/message/stream.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/router/request_attributes.h"
#include "proxy/upstream/tried_endpoints.h"

namespace sluice {

class UpstreamConnection;

/// The sender of one request, as the upstream and its connections see it: they ask it about the request and report the
/// results to it. It receives the events of its stream.
class UpstreamCaller : public StreamReceiver {
 public:
  /// The request's attributes, for upstreams that choose an endpoint by them. Without fields if they are not known.
  virtual RequestAttributes facts() const { return {}; }
  const TriedEndpoints& tried() const { return tried_; }
  /// The endpoint that already has the same request; see Choice::beside.
  virtual std::optional<uint32_t> beside() const { return {}; }
  /// Whether the request may be resent if an idle connection turns out to be closed (RFC 9110 section 9.2.2). For other
  /// requests it is worth checking the connection first.
  virtual bool may_repeat() const { return true; }
  /// How many attempts it has made of those that config::Upstream::connect_attempts limits.
  uint32_t limited_attempts() const { return connects_; }
  /// Whether the connection with this number may be used. After the failure of a reused connection, only a connection
  /// made after the request was last sent may be used: the same cause may have ended the older ones too.
  bool may_use(uint64_t connection) const { return !wants_fresh_ || connection > newest_; }

  /// The upstream has chosen the endpoint for this attempt.
  virtual void chose(uint32_t endpoint) = 0;
  virtual void on_upstream(UpstreamConnection& connection, HttpStream& stream) = 0;
  virtual void on_no_upstream(HttpEnd why) = 0;
  /// The chosen endpoint could not be connected to.
  virtual void on_connect_failed() = 0;
  /// The awaited connection has no room for the request, which needs another one.
  virtual void on_no_room() = 0;

  // Called by a ConcurrencyLimit.
  /// Who waits, and who is refused first.
  virtual config::Priority priority() const { return config::Priority::kNormal; }
  /// A request that waited for a place has it now.
  virtual void on_place() = 0;
  /// It has no place any more.
  virtual void on_place_lost() = 0;

  // Called by a ForwardQueue.
  /// When it began to wait.
  virtual uint64_t waiting_since_ms() const { return 0; }
  /// A request that waited for a turn of the loop may be forwarded now.
  virtual void on_turn() {}

  /// Sets the connection that the request waits for, or null.
  void set_awaited(UpstreamConnection* connection) { connection_ = connection; }
  UpstreamCaller* next_waiting = nullptr;      // In a ForwardQueue, or in the queue of a connection.
  UpstreamCaller* previous_waiting = nullptr;  // In a ForwardQueue.
  /// The list of the ForwardQueue that the request is in, or kNoList.
  uint8_t forward_list() const { return forward_list_; }
  void set_forward_list(uint8_t list) { forward_list_ = list & kNoList; }
  static constexpr uint8_t kNoList = 3;

 protected:
  ~UpstreamCaller() = default;

  UpstreamConnection* connection_ = nullptr;  // The connection of the stream, or the awaited connection.
  TriedEndpoints tried_;
  uint64_t newest_ = 0;  // The upstream's newest connection when the request was last sent.
  uint16_t connects_ = 0;
  bool wants_fresh_ : 1 = false;
  uint8_t forward_list_ : 2 = kNoList;
};

}  // namespace sluice
