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
/// It lies in memory of the HttpWorker, and returns that memory at the end of the turn in which it is done. Copies of
/// one request that wait for more of it are a list.
class MirroredRequest final : public UpstreamRequest {
 public:
  /// Starts a copy and puts it in front of the list that begins with `first`, if it is possible and the request has not
  /// ended. Returns null if it is not in the list. `to` lives as long as the worker, `first` until the list is empty.
  static MirroredRequest* begin(HttpWorker& worker, HttpUpstream& to, const Head& request, bool end,
                                MirroredRequest*& first);
  /// Calls `visit` with each copy in the list, which may leave it.
  template <class Visit>
  static void each(MirroredRequest*& first, Visit&& visit) {
    for (MirroredRequest** at = &first; *at != nullptr;) {
      MirroredRequest* const copy = *at;
      visit(*copy);
      if (*at == copy) at = &copy->next_;
    }
  }

  /// Sends more of the body. After its end, or after the trailers, the copy leaves the list and continues on its own.
  void send_body(Buffer&& body, bool end);
  void send_trailers(const Fields& trailers);
  // UpstreamCaller
  config::Priority priority() const override { return config::Priority::kLow; }
  /// Gives the copy up because the request ends before it is complete.
  void cut() { give_up(); }

 private:
  friend HttpWorker;  // Destroys it.
  MirroredRequest(HttpWorker& worker, HttpUpstream& to, MirroredRequest*& first);
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

  void leave_list();
  void end_request();
  void give_up();
  void finish();

  HttpWorker& worker_;
  MirroredRequest** place_;  // The pointer to this in the list. Null once the request is complete.
  MirroredRequest* next_;
  Head request_;
  Buffer held_;  // Body received before there is a connection.
  Fields held_trailers_;
  bool request_ended_ = false;
  Timer timer_;
};

}  // namespace sluice
