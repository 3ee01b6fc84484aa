#pragma once

#include <cstdint>

#include "buffer/buffer.h"
#include "net/timer_wheel.h"
#include "proxy/http/message/head.h"
#include "proxy/http/proxy/upstream_request.h"

namespace sluice {

class HttpWorker;

/// A copy of a request for another upstream, whose response nobody waits for. Its body is what the exchange passes on,
/// shared with it. An upstream that does not take it as fast loses the copy, and not the client its pace.
///
/// It lies in memory of the HttpWorker, and gives it back when it is over: `place` is null then.
class MirroredRequest final : public UpstreamRequest {
 public:
  /// Makes `place` point to the copy; null where there can be none. `to` is as long as the worker.
  static void begin(HttpWorker& worker, HttpUpstream& to, const Head& request, bool end, MirroredRequest*& place);

  /// More of the body. Behind its end, or the trailers, `place` is null: the copy goes its own way.
  void send_body(Buffer&& body, bool end);
  void send_trailers(const Fields& trailers);
  /// The request ends before it is complete.
  void cut() { give_up(); }

 private:
  MirroredRequest(HttpWorker& worker, HttpUpstream& to, MirroredRequest*& place);
  ~MirroredRequest() = default;

  // StreamReceiver
  void on_head(HttpStream&, Head&&, bool end) override;
  void on_body(HttpStream&, Buffer&& body, bool end) override;
  void on_trailers(HttpStream&, Fields&&) override { finish(); }
  void on_reset(HttpStream&, ResetReason) override;
  void on_drained(HttpStream&) override {}
  // UpstreamRequest
  void on_upstream(UpstreamConnection& connection, HttpStream& stream) override;
  void on_no_upstream(HttpEnd) override;
  void on_connect_failed() override { call(); }

  void end_request();
  void give_up();
  void finish();

  HttpWorker& worker_;
  MirroredRequest** place_;  // Null once the request is complete.
  Head request_;
  Buffer held_;  // Body that has come before there is a connection,
  Fields held_trailers_;
  bool request_ended_ = false;
  Timer timer_;
};

}  // namespace sluice
