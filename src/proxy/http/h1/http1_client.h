#pragma once

#include "proxy/http/h1/http1_codec.h"

namespace sluice {

/// The side that sends requests and reads responses: one exchange at a time, which open_stream() begins.
///
/// A response may be complete before its request is. If the connection goes on behind it, the receiver may send the
/// rest and the connection is used again, or release the stream, which ends the connection. If the connection does not
/// go on, what is still to be sent is dropped. A response that breaks a rule, or is cut off, ends with on_reset (of
/// kMalformed, kTooLarge, kConnectionLost) and the status kFailed; so do bytes that nobody asked for.
///
/// Requests get a framing of their own: Content-Length where the head has one, else none if nothing follows the head,
/// else chunks. What a receiver sends behind a head with kProtocol, or CONNECT, is held until the peer has agreed.
class Http1Client final : public Http1Codec {
 public:
  /// `options`, of which only the limits count, `counters` and `pool` outlive it.
  Http1Client(ChunkPool& pool, const Http1Options& options, Http1Counters& counters)
      : Http1Codec(pool, options, counters, false) {}

  /// Null while an exchange is under way, or when none can follow.
  HttpStream* open_stream(StreamReceiver& receiver) override;
  /// A request whose head was not sent yet says Connection: close.
  void drain() override;

 private:
  void send_head(const Head& head, bool end) override;
  bool read_head() override;
  bool after_message() override;
  void answer(const http1::Error&) override { output_.clear(); }

  bool take_response(Head& head, http1::MessageInfo& info);
  /// The head cannot be written. Nothing of it was, so only the exchange ends: the connection may be used again.
  void refuse_head();
  void write_head(const Head& head, std::string_view method, std::string_view target, bool end);
};
static_assert(sizeof(Http1Client) <= 256);

}  // namespace sluice
