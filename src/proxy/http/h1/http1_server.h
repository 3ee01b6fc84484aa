#pragma once

#include "proxy/http/h1/http1_codec.h"

namespace sluice {

/// The server side of an HTTP/1.1 connection: reads requests and sends responses. It passes one request at a time to a
/// receiver. Pipelined requests wait as bytes, and reading pauses (wants_bytes) while Http1Limits::pipelined_bytes of
/// them wait.
///
/// If a request cannot be accepted and its response has not begun, the codec itself responds with 400, 414, 417, 431,
/// 501 or 505 and the reason as a short text. Its status is then kFailed, and the acceptor has got on_refused. When a
/// request breaks a rule within its body, the receiver gets on_broken and on_reset.
///
/// The codec chooses the framing of responses: Content-Length if the head has one or nothing follows it, else chunked,
/// or the end of the connection for HTTP/1.0. Where a response may have no body (HEAD, 204, 304), body bytes are
/// dropped. A final response ends the connection (status kEnded) when the request demands it, is the last one allowed,
/// waits for a 100 that was not sent, or is incomplete while the status is 4xx or 5xx. So does a receiver that releases
/// the stream before the whole request was read. The exception is a request with at most 64 KiB left, by its
/// Content-Length or as its chunks turn out: the rest is read and dropped. Otherwise the rest of the request may still
/// arrive after its response.
class Http1Server final : public Http1Codec {
 public:
  /// `options`, `counters`, `pool` and `acceptor` outlive it. `requests` is the number of requests that arrived on this
  /// connection before, in another codec object.
  Http1Server(ChunkPool& pool, const Http1Options& options, Http1Counters& counters, Acceptor& acceptor,
              uint32_t requests = 0)
      : Http1Codec(pool, options, counters, true), acceptor_(acceptor) {
    requests_ = requests;
  }

  HttpStream* open_stream(StreamReceiver&) override { return nullptr; }
  /// The next response carries Connection: close, and requests after it get no response. An idle connection ends at
  /// once; one with a partial request ends after its response.
  void drain() override;
  /// Like drain(), but an idle connection waits for one more request.
  void end_after_request() { draining_ = true; }

 private:
  void send_head(const Head& head, bool end) override;
  bool read_head() override;
  bool after_message() override { return false; }  // The next request waits for the stream's release.
  void respond(const http1::Error& error) override;
  void report(const http1::Error& error) override;

  bool skip_empty_line();
  void write_interim(const Head& head);
  void accept_tunnel(const Head& head);
  void write_final(const Head& head, bool end);
  void write_unframed(const Head& head);

  Acceptor& acceptor_;
};
static_assert(sizeof(Http1Server) <= 256);

}  // namespace sluice
