#pragma once

#include <cstdint>

#include "net/timer_wheel.h"
#include "proxy/http/message/head.h"
#include "proxy/http/proxy/upstream_request.h"
#include "sluice/buffer.h"

namespace sluice {

class HttpWorker;

/// A copy of a request to another upstream, whose response is dropped. It shares the body with the exchange that passes
/// it on. If the upstream does not keep up, the copy is given up; the client is never slowed down.
///
/// It lies in memory of the HttpWorker, and returns that memory at the end of the turn in which it is done; `place` is
/// null then.
class MirroredRequest final : public UpstreamRequest {
 public:
  /// Starts a copy and makes `place` point to it, or sets it to null if no copy can be made. `to` lives as long as the
  /// worker.
  static void begin(HttpWorker& worker, HttpUpstream& to, const Head& request, bool end, MirroredRequest*& place);

  /// Sends more of the body. After its end, or after the trailers, `place` is null and the copy continues on its own.
  void send_body(Buffer&& body, bool end);
  void send_trailers(const Fields& trailers);
  // UpstreamCaller
  config::Priority priority() const override { return config::Priority::kLow; }
  /// Gives the copy up because the request ends before it is complete.
  void cut() { give_up(); }

 private:
  friend HttpWorker;  // Destroys it.
  MirroredRequest(HttpWorker& worker, HttpUpstream& to, MirroredRequest*& place);
  ~MirroredRequest() = default;

  HttpWorker& http_worker() const { return worker_; }
  // StreamReceiver
  void on_head(HttpStream&, Head&&, bool end) override;
  void on_body(HttpStream&, Buffer&& body, bool end) override;
  void on_trailers(HttpStream&, Fields&&) override { finish(); }
  void on_reset(HttpStream&, ResetReason) override;
  void on_drained(HttpStream&) override {}
  // UpstreamCaller
  void on_upstream(UpstreamConnection& connection, HttpStream& stream) override;
  void on_no_upstream(HttpEnd) override;
  void on_connect_failed() override { call(); }

  void end_request();
  void give_up();
  void finish();

  HttpWorker& worker_;
  MirroredRequest** place_;  // Null once the request is complete.
  Head request_;
  Buffer held_;  // Body received before there is a connection.
  Fields held_trailers_;
  bool request_ended_ = false;
  Timer timer_;
};

}  // namespace sluice
