#pragma once

#include <cstdint>

#include "proxy/http/proxy/upstream_caller.h"

namespace sluice {

class HttpUpstream;

/// The sender of one request to an upstream, from the request for a connection until the release of the stream.
///
/// call() leads to one of on_upstream, on_connect_failed (then call() once more, or give up), and on_no_upstream.
class UpstreamRequest : public UpstreamCaller {
 private:
  bool endpoint_counted_ = false;  // First, as there is room behind the base class.

 public:
  // UpstreamCaller
  void chose(uint32_t endpoint) final;
  void on_no_room() final;

  uint32_t endpoint() const { return endpoint_; }
  /// How many endpoints were chosen so far.
  uint32_t attempts() const { return attempts_; }

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
  bool attempts_left() const;
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

  bool waiting_ = false;            // Waiting for a connection.
  HttpUpstream* to_ = nullptr;      // The upstream that the request goes to.
  HttpStream* upstream_ = nullptr;  // Null before there is a connection, and after the release.
  uint32_t attempts_ = 0;           // Attempts to find a connection, in total.
  uint32_t endpoint_ = 0;

 private:
  /// Lets go of the endpoint. It is held as long as its name may be needed.
  void let_endpoint_go();
};

}  // namespace sluice
