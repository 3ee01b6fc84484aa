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

/// The sender of one request to an upstream, from the request for a connection until the release of the stream. It
/// receives the stream's events.
///
/// call() leads to one of on_upstream, on_connect_failed (then call() once more, or give up), and on_no_upstream.
class UpstreamRequest : public StreamReceiver {
 public:
  // Called by the upstream.
  /// The request's attributes, for upstreams that choose an endpoint by them. Without fields if they are not known.
  virtual RequestAttributes facts() const { return {}; }
  const TriedEndpoints& tried() const { return tried_; }
  /// The endpoint that already has the same request; see Choice::beside.
  virtual std::optional<uint32_t> beside() const { return {}; }
  /// Whether the request may be resent if an idle connection turns out to be closed (RFC 9110 section 9.2.2). For other
  /// requests it is worth checking the connection first.
  virtual bool may_repeat() const { return true; }
  bool attempts_left() const;
  void chose(uint32_t endpoint);
  uint32_t endpoint() const { return endpoint_; }
  /// How many endpoints were chosen so far.
  uint32_t attempts() const { return attempts_; }
  /// Whether this connection may be used. After the failure of a reused connection, only a connection made after the
  /// request was last sent may be used: the same cause may have ended the older ones too.
  bool may_use(const UpstreamConnection& connection) const;
  /// The awaited connection had no room for the request. The endpoint may be chosen again, but this counts as an
  /// attempt.
  void found_no_room() { tried_.remove(endpoint_); }
  virtual void on_upstream(UpstreamConnection& connection, HttpStream& stream) = 0;
  virtual void on_no_upstream(HttpEnd why) = 0;
  /// The chosen endpoint could not be connected to.
  virtual void on_connect_failed() = 0;
  /// Sets the connection that the request waits for, or null.
  void set_awaited(UpstreamConnection* connection) { connection_ = connection; }
  UpstreamRequest* next_waiting = nullptr;  // In the queue of a connection.

 protected:
  UpstreamRequest() = default;
  ~UpstreamRequest() {
    leave_endpoint();
    let_endpoint_go();
  }
  UpstreamRequest(const UpstreamRequest&) = delete;
  UpstreamRequest& operator=(const UpstreamRequest&) = delete;

  /// Requests a connection to an endpoint that was not tried yet. The result may arrive before this returns.
  void call();
  /// The first step of on_upstream.
  void take_upstream(UpstreamConnection& connection, HttpStream& stream);
  /// Stops waiting for a connection.
  void stop_waiting();
  /// Releases the stream. A stream that has not ended is reset.
  void leave_upstream();
  void leave_endpoint();
  /// Takes the place of another caller of the same upstream: its stream or its place in a queue, its endpoint, and the
  /// endpoints that it has tried. Precondition: this one has left its own.
  void adopt(UpstreamRequest& other);

  HttpUpstream* to_ = nullptr;                // The upstream that the request goes to.
  HttpStream* upstream_ = nullptr;            // Null before there is a connection, and after the release.
  UpstreamConnection* connection_ = nullptr;  // The connection of upstream_, or the awaited connection.
  TriedEndpoints tried_;
  uint64_t newest_ = 0;    // The upstream's newest connection when the request was last sent.
  uint32_t attempts_ = 0;  // Attempts to find a connection, in total.
  uint32_t connects_ = 0;  // Attempts that config::Upstream::connect_attempts limits.
  uint32_t endpoint_ = 0;
  bool waiting_ = false;  // Waiting for a connection.
  bool wants_fresh_ = false;

 private:
  /// Lets go of the endpoint. It is held as long as its name may be needed.
  void let_endpoint_go();

  bool endpoint_counted_ = false;
};

}  // namespace sluice
