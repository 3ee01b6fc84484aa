#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/http/h1/limits.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/http_connection.h"
#include "proxy/tls/session_cache.h"
#include "proxy/upstream/endpoint.h"
#include "sluice/buffer.h"

namespace sluice {

class HttpWorker;

/// One health check of one endpoint, on a connection of its own. It checks that the connection can be made, with its
/// handshake if there is one, and that a request receives the expected response. It destroys itself after it has
/// closed; until then its owner holds the endpoint (EndpointView).
class CheckConnection final : public HttpConnection, private StreamReceiver {
 public:
  enum class Outcome : uint8_t {
    kPassed,
    kFailed,
    kTimedOut,  ///< Failed, since it took longer than `timeout`.
    kNotMade,   ///< A resource was missing on our side. The outcome says nothing about the endpoint.
  };
  class Owner {
   public:
    /// Called once. `why`: the reason if the check did not pass.
    virtual void on_checked(CheckConnection& check, Outcome outcome, std::string_view why) = 0;
    /// The check is about to be destroyed.
    virtual void on_check_gone(CheckConnection& check) = 0;

   protected:
    ~Owner() = default;
  };
  /// State that all checks of an upstream share. It outlives them.
  struct Shared {
    Shared(HttpWorker& on, UpstreamState& of, Owner& check_owner);
    const config::HealthCheck& config() const { return *upstream.config().health_check; }

    HttpWorker& worker;
    UpstreamState& upstream;
    Owner& owner;
    SessionCache sessions;
    Http1Options http1;
    Http1Counters http1_counters;
    Http2Limits http2;
    Http2Counters http2_counters;
    Http2Codec::Shared http2_shared;
    size_t existing = 0;  ///< Checks that are not destroyed yet.
  };

  CheckConnection(Shared& shared, uint32_t endpoint);
  ~CheckConnection();

  uint32_t endpoint() const { return endpoint_; }
  /// Starts the check. Owner::on_checked follows, perhaps before this returns.
  void begin();
  /// Ends the check now, without an outcome.
  void cancel();

 private:
  // HttpConnection
  void on_codec_done() override;
  void on_pumped() override;
  void on_flushed(size_t) override {}
  void on_timer() override;
  void on_gone() override;
  size_t send_mark() const override;
  // Transport::Owner
  void on_connected(Transport& transport, int error) override;
  void on_secured(Transport& transport, const Agreement& agreement) override;
  void on_insecure(Transport& transport, std::string_view error) override;
  void on_session(Transport& transport, bssl::UniquePtr<SSL_SESSION> session) override;
  void on_end(Transport& transport, bool truncated) override;
  void on_error(Transport& transport, int error) override;
  // StreamReceiver
  void on_head(HttpStream& stream, Head&& head, bool end) override;
  void on_body(HttpStream& stream, Buffer&& body, bool end) override;
  void on_trailers(HttpStream& stream, Fields&& trailers) override;
  void on_reset(HttpStream& stream, ResetReason reason) override;
  void on_drained(HttpStream&) override {}

  const config::Upstream& upstream() const { return shared_.upstream.config(); }
  bool speaks_http2() const { return upstream().protocol == config::Protocol::kHttp2; }
  /// Whether a request is sent. If not, a connection is enough to pass.
  bool sends_request() const { return shared_.config().http || shared_.config().grpc; }
  void send_proxy_header();
  void speak_http();
  void send_request();
  bool make_request(Head& head) const;
  bool is_expected(uint16_t status) const;
  void check_body();
  void check_call(std::string_view status);
  void pass() { finish(Outcome::kPassed, {}); }
  void fail(std::string_view why) { finish(Outcome::kFailed, why); }
  void finish(Outcome outcome, std::string_view why);
  void leave();
  const char* stage() const;

  Shared& shared_;
  config::Address address_;  // A connect() in progress refers to it.
  uint32_t endpoint_;
  uint16_t generation_ = 0;       // Generation of the TLS context.
  HttpStream* stream_ = nullptr;  // Set while the request is in progress.
  Buffer body_;
  bool responded_ = false;  // The response head has arrived.
  bool finished_ = false;
  bool passed_ = false;
};

}  // namespace sluice
