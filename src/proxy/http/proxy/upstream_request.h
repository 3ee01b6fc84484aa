#pragma once

#include <cstdint>
#include <optional>

#include "proxy/http/message/stream.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/router/request_attributes.h"
#include "proxy/upstream/tried_endpoints.h"

namespace sluice {

class HttpUpstream;
class UpstreamConnection;

/// Who sends a request to an upstream: from asking for a connection until the stream on it is released. It is the
/// stream's receiver.
///
/// call() -> on_upstream | on_connect_failed (call() again, or give up) | on_no_upstream.
class UpstreamRequest : public StreamReceiver {
 public:
  // For the upstream.
  /// What the request says, for upstreams that choose an endpoint by it; without fields where that is not known.
  virtual RequestAttributes facts() const { return {}; }
  const TriedEndpoints& tried() const { return tried_; }
  /// The endpoint that is asked the same already; see Choice::beside.
  virtual std::optional<uint32_t> beside() const { return {}; }
  /// Whether it may be sent again where a connection that had waited turns out to be closed (RFC 9110 section 9.2.2).
  /// For others a closed connection is worth a look before.
  virtual bool may_repeat() const { return true; }
  bool attempts_left() const;
  void chose(uint32_t endpoint);
  uint32_t endpoint() const { return endpoint_; }
  /// How many were chosen.
  uint32_t attempts() const { return attempts_; }
  /// Whether this connection will do. Where one that was used before has just failed, it is one that was not there when
  /// the request was sent: what ended that one has perhaps ended its siblings, too.
  bool may_use(const UpstreamConnection& connection) const;
  /// On the connection that it waited for: the endpoint is as good as before, but it counts as an attempt.
  void found_no_room() { tried_.remove(endpoint_); }
  virtual void on_upstream(UpstreamConnection& connection, HttpStream& stream) = 0;
  virtual void on_no_upstream(HttpEnd why) = 0;
  /// To the endpoint that was chosen.
  virtual void on_connect_failed() = 0;
  /// The connection that it waits for now, or null.
  void set_awaited(UpstreamConnection* connection) { connection_ = connection; }
  UpstreamRequest* next_waiting = nullptr;  // Among those who wait for a connection.

 protected:
  UpstreamRequest() = default;
  ~UpstreamRequest() {
    leave_endpoint();
    let_endpoint_go();
  }
  UpstreamRequest(const UpstreamRequest&) = delete;
  UpstreamRequest& operator=(const UpstreamRequest&) = delete;

  /// Asks for a connection to an endpoint that was not tried; what follows may come at once.
  void call();
  /// What on_upstream begins with.
  void take_upstream(UpstreamConnection& connection, HttpStream& stream);
  /// Wants no connection any more.
  void stop_waiting();
  /// The stream is let go, reset if it has not ended.
  void leave_upstream();
  void leave_endpoint();
  /// Takes the place of another caller of the same upstream, on its stream or in waiting, with its endpoint and what it
  /// has tried. Precondition: it has left its own.
  void adopt(UpstreamRequest& other);

  HttpUpstream* to_ = nullptr;                // Where it is sent to.
  HttpStream* upstream_ = nullptr;            // Null before there is a connection, and once released.
  UpstreamConnection* connection_ = nullptr;  // That upstream_ is on, or will be.
  TriedEndpoints tried_;
  uint32_t attempts_ = 0;  // To find a connection: in all,
  uint32_t connects_ = 0;  // and of those that config::Upstream::connect_attempts bounds.
  uint32_t endpoint_ = 0;
  uint64_t newest_ = 0;   // Connection of the upstream when it was last sent.
  bool waiting_ = false;  // For a connection.
  bool wants_fresh_ = false;

 private:
  /// It was held for as long as its name may be asked for.
  void let_endpoint_go();

  bool endpoint_counted_ = false;
};

}  // namespace sluice
