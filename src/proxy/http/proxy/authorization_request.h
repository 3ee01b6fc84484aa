#pragma once

#include <cstdint>

#include "proxy/http/proxy/side_request.h"

namespace sluice {

/// A request to an authorizer: a GET without a body. The body of a 2xx response is not passed on.
class AuthorizationRequest final : public SideRequest {
 public:
  /// Starts it; returns null if it has notified the caller already. `request` has no scheme yet. It must be over within
  /// `timeout_ms`.
  static SideCall* begin(HttpWorker& worker, HttpUpstream& to, Head&& request, uint64_t timeout_ms, Caller& caller) {
    return begin_of<AuthorizationRequest>(worker, timeout_ms, to, std::move(request), caller);
  }

 private:
  friend SideRequest;
  using SideRequest::SideRequest;

  // SideRequest
  void send(HttpStream& stream) override;
  // StreamReceiver
  void on_head(HttpStream&, Head&& head, bool end) override;
  void on_body(HttpStream&, Buffer&& body, bool end) override;
  void on_trailers(HttpStream&, Fields&&) override { finish(Outcome::kResponse); }
};

}  // namespace sluice
