#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/http/h2/http2_codec.h"
#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/http_connection.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/tls/session_cache.h"
#include "proxy/upstream/endpoint.h"
#include "sluice/buffer.h"

namespace sluice::xds {

/// What the connections to a service of the control plane share. On the client's thread only.
class AdsServices final : public HttpServices {
 public:
  AdsServices(Worker& loop, HandshakerServices& alts, UpstreamState& to)
      : HttpServices(loop, alts, HttpConnection::pump),
        upstream(to),
        sessions(to.size()),
        http2_shared{loop.pool(), http2, http2_counters} {
    http2.requests = 0;
  }

  UpstreamState& upstream;
  SessionCache sessions;
  Http2Limits http2;
  Http2Counters http2_counters;
  Http2Codec::Shared http2_shared;
};

/// A connection to a service of the control plane with one stream of gRPC on it. It destroys itself after it has
/// closed.
class AdsConnection final : public HttpConnection, private StreamReceiver {
 public:
  class Owner {
   public:
    /// The stream is open: send() may be called.
    virtual void on_open(AdsConnection& connection) = 0;
    /// A message has arrived. An error ends the connection.
    virtual absl::Status on_message(std::string_view message) = 0;
    /// The connection is about to be destroyed. `why`: for people.
    virtual void on_lost(AdsConnection& connection, std::string_view why) = 0;

   protected:
    ~Owner() = default;
  };
  /// The longest message that is read.
  static constexpr size_t kMaxMessageBytes = size_t{64} << 20;
  static constexpr uint64_t kConnectTimeoutMs = 5000;

  AdsConnection(AdsServices& services, Owner& owner, uint32_t endpoint, std::string_view path);

  /// Connects. Owner::on_open or on_lost follows, perhaps before this returns.
  void begin();
  void send(std::string_view message);
  /// Bytes that were sent, and that the service has not read yet.
  size_t unsent() const { return stream_ ? stream_->queued() + transport_.queued() : 0; }
  /// Ends the connection. on_lost() follows.
  void end(std::string_view why);

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

  void open_stream();
  bool make_request(Head& head) const;
  void read_messages();
  void fail(std::string why);
  void leave();

  AdsServices& ads_;
  Owner& owner_;
  config::Address address_;  // A connect() in progress refers to it.
  const uint32_t endpoint_;
  const std::string_view path_;
  uint16_t generation_ = 0;       // Of the TLS context.
  HttpStream* stream_ = nullptr;  // Set while the stream is open.
  std::string received_;          // Not read yet.
  std::string why_;               // Set when it ends.
};

}  // namespace sluice::xds
