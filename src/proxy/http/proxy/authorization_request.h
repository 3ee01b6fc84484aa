#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "net/timer_wheel.h"
#include "proxy/http/message/head.h"
#include "proxy/http/proxy/phases/authorizer_call.h"
#include "proxy/http/proxy/upstream_request.h"
#include "sluice/buffer.h"

namespace sluice {

class HttpWorker;

/// A request to an authorizer: a GET without a body. It lies in memory of the HttpWorker, notifies its caller once, and
/// returns that memory at the end of the turn in which it is over.
class AuthorizationRequest final : public UpstreamRequest, public AuthorizerCall {
 public:
  /// The largest body of a response that is passed on to a client.
  static constexpr size_t kMaxBodyBytes = size_t{64} * 1024;

  /// Starts it; returns null if it has notified the caller already. `request` has no scheme yet. It must be over within
  /// `timeout_ms`.
  static AuthorizerCall* begin(HttpWorker& worker, HttpUpstream& to, Head&& request, uint64_t timeout_ms,
                               Caller& caller);

  // AuthorizerCall
  void cancel() override;

 private:
  AuthorizationRequest(HttpWorker& worker, HttpUpstream& to, Head&& request, Caller& caller);
  ~AuthorizationRequest() = default;

  // StreamReceiver
  void on_head(HttpStream&, Head&& head, bool end) override;
  void on_body(HttpStream&, Buffer&& body, bool end) override;
  void on_trailers(HttpStream&, Fields&&) override { finish(Outcome::kResponse); }
  void on_reset(HttpStream&, ResetReason) override;
  void on_drained(HttpStream&) override {}
  // UpstreamCaller
  void on_upstream(UpstreamConnection& connection, HttpStream& stream) override;
  void on_no_upstream(HttpEnd why) override;
  void on_connect_failed() override { call(); }

  [[nodiscard]] bool complete_head();
  [[nodiscard]] bool take_another(ResetReason reason);
  void on_timer();
  void notify(Outcome outcome, std::string_view error);
  void give_up(Outcome outcome, std::string_view error);
  void finish(Outcome outcome, std::string_view error = {});

  HttpWorker& worker_;
  Caller* caller_;  // Null once it is notified.
  Head request_;
  Head response_;
  Buffer body_;
  size_t received_ = 0;  // Bytes of the response's body.
  uint64_t sent_ms_ = 0;
  bool used_connection_ = false;  // Other requests used the connection before.
  bool over_ = false;
  Timer timer_;
};

}  // namespace sluice
