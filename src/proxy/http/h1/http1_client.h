#pragma once

#include "proxy/http/h1/http1_codec.h"

namespace sluice {

/// The client side of an HTTP/1.1 connection: sends requests and reads responses. It runs one exchange at a time, which
/// open_stream() begins.
///
/// A response may be complete before its request is. If the connection persists after it, the receiver may send the
/// rest of the request, after which the connection can be reused, or release the stream, which ends the connection. If
/// the connection does not persist, the unsent rest of the request is dropped. A response that breaks a rule or is cut
/// off ends with on_reset (kMalformed, kTooLarge or kConnectionLost) and the status kFailed. So do bytes that belong to
/// no response. If they come before a further request is sent, they count as the end of an idle connection
/// (kConnectionLost).
///
/// The codec chooses the framing of requests: Content-Length if the head has one, else none if nothing follows the
/// head, else chunked. Data that a receiver sends after a head with kProtocol or a CONNECT is held until the peer has
/// accepted the tunnel.
class Http1Client final : public Http1Codec {
 public:
  /// `options`, `counters` and `pool` outlive it. Of the options only the limits apply.
  Http1Client(ChunkPool& pool, const Http1Options& options, Http1Counters& counters)
      : Http1Codec(pool, options, counters, false) {}

  /// Returns null while an exchange is in progress, or when no further one is possible.
  HttpStream* open_stream(StreamReceiver& receiver) override;
  /// A request whose head is still unsent goes out with Connection: close.
  void drain() override;

 private:
  void send_head(const Head& head, bool end) override;
  bool read_head() override;
  bool after_message() override;
  void respond(const http1::Error&) override { output_.clear(); }

  bool take_response(Head& head, http1::MessageInfo& info);
  /// Refuses a head that cannot be written. None of it was sent, so only the exchange ends and the connection can be
  /// reused.
  void refuse_head();
  void write_head(const Head& head, std::string_view method, std::string_view target, bool end);
};
static_assert(sizeof(Http1Client) <= 256);

}  // namespace sluice
