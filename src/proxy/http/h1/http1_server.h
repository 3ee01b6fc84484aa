#pragma once

#include "proxy/http/h1/http1_codec.h"

namespace sluice {

/// The side that reads requests. One at a time is given to its receiver; later ones wait as bytes, and reading stops
/// (wants_bytes) while Http1Limits::pipelined_bytes of them do.
///
/// What it cannot take it answers by itself, with 400, 414, 417, 431, 501 or 505 and the reason as a short text, if the
/// response has not begun; then its status is kFailed. A request that breaks a rule within its body ends for the
/// receiver with on_reset.
///
/// Responses get a framing of their own: Content-Length where the head has one or nothing follows it, else chunks, or
/// the connection's end for HTTP/1.0. Where none may have a body (HEAD, 204, 304) what is sent as one is dropped.
/// A final response ends the connection (status kEnded) when the request asks for it, is the last one allowed, waits
/// for a 100 that was not sent, or is not complete while the status is 4xx or 5xx; and when the receiver releases the
/// stream before the request was read whole. But for a request of which at most 64 KiB are left, by its Content-Length
/// or as its chunks turn out: that is read and dropped. Otherwise the request may go on behind its response.
class Http1Server final : public Http1Codec {
 public:
  /// `options`, `counters`, `pool` and `acceptor` outlive it.
  /// `requests`: that came on the connection before, to another such object.
  Http1Server(ChunkPool& pool, const Http1Options& options, Http1Counters& counters, Acceptor& acceptor,
              uint32_t requests = 0)
      : Http1Codec(pool, options, counters, true), acceptor_(acceptor) {
    requests_ = requests;
  }

  /// The status of what it answered by itself; 0: nothing.
  uint16_t own_status() const { return own_status_; }

  HttpStream* open_stream(StreamReceiver&) override { return nullptr; }
  /// The response to come says Connection: close; requests behind it are not answered. A connection that waits ends at
  /// once, one with part of a request behind its response.
  void drain() override;

 private:
  void send_head(const Head& head, bool end) override;
  bool read_head() override;
  bool after_message() override { return false; }  // What follows waits for the stream's release.
  void answer(const http1::Error& error) override;

  bool skip_empty_line();
  void write_interim(const Head& head);
  void accept_tunnel(const Head& head);
  void write_final(const Head& head, bool end);
  void write_unframed(const Head& head);

  Acceptor& acceptor_;
};
static_assert(sizeof(Http1Server) <= 256);

}  // namespace sluice
