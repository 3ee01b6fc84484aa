#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "buffer/buffer.h"
#include "net/timer_wheel.h"
#include "proxy/config/config.h"
#include "proxy/http/head.h"
#include "proxy/http/stream.h"
#include "proxy/route/http_facts.h"
#include "proxy/stats/http_counters.h"
#include "proxy/upstream/balancer.h"

namespace sluice {

struct HttpListener;
class HttpSession;
class HttpUpstream;
class HttpWorker;
class UpstreamConnection;

/// One request of a client and its response: a stream of the client's connection, the stream of an endpoint's
/// connection that it is forwarded on, and the bytes between them. What one stream receives goes straight to the other;
/// a side that takes nothing has the other stop reading.
///
/// It lies in memory of the HttpWorker, and gives it back when both streams are released.
class Exchange final : public StreamReceiver {
 public:
  static Exchange& begin(HttpSession& session, HttpStream& client);
  /// Ends it now: the time to drain is over.
  void shut_down() { fail(HttpEnd::kShutdown); }

  // For the upstream.
  const TriedEndpoints& tried() const { return tried_; }
  bool attempts_left() const;
  void chose(uint32_t endpoint);
  uint32_t endpoint() const { return endpoint_; }
  /// Whether only a new connection will do: one that was used before has just failed.
  bool wants_fresh() const { return wants_fresh_; }
  void on_upstream(UpstreamConnection& connection, HttpStream& stream);
  void on_no_upstream(HttpEnd why);
  /// On the connection that it waited for: the endpoint is as good as before, but it counts as an attempt.
  void found_no_room() { tried_ = TriedEndpoints(); }
  /// To the endpoint that was chosen.
  void on_connect_failed();
  Exchange* next_waiting = nullptr;  // Among those who wait for a connection.

 private:
  Exchange(HttpSession& session, HttpStream& client);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void on_head(HttpStream& stream, Head&& head, bool end) override;
  void on_body(HttpStream& stream, Buffer&& body, bool end) override;
  void on_trailers(HttpStream& stream, Fields&& trailers) override;
  void on_reset(HttpStream& stream, ResetReason reason) override;
  void on_drained(HttpStream& stream) override;

  // The request.
  void take_request(bool end);
  bool make_canonical();
  /// Of what the client asked for, whatever has become of it. Good until the request changes.
  HttpFacts facts() const;
  std::string_view asked_path() const;
  std::string_view asked_authority() const;
  bool is_too_much_body(uint64_t bytes) const;
  [[nodiscard]] bool change_request();
  [[nodiscard]] bool rewrite(const config::Rewrite& rewrite);
  void find_deadline();
  void send_request();
  void request_body(Buffer&& body, bool end);
  void pause_request();
  void request_trailers(Fields&& trailers);
  bool can_retry(ResetReason reason) const;

  // The response.
  void take_response(Head&& head, bool end);
  void response_body(Buffer&& body, bool end);
  void respond(uint16_t status, std::string_view content_type, std::string_view body, std::string_view location = {});
  void redirect(const config::Redirect& redirect);
  [[nodiscard]] bool change_response(Head& head);
  void upstream_reset(ResetReason reason);
  /// Ends it without a response of the upstream's: with one of our own, or by resetting what has begun.
  void fail(HttpEnd why);
  void respond_grpc(HttpEnd why);

  // The end.
  void client_reset(ResetReason reason);
  void leave_upstream();
  void leave_endpoint();
  void release_client();
  void settle();
  void destroy();
  void finish();
  void log();

  void on_timer();
  void watch();
  bool awaits_response() const;
  bool awaits_body() const;
  bool awaits_client() const;
  uint64_t stuck_since_ms() const;
  void note_activity();
  size_t high_mark() const;
  const config::Http& config() const;
  uint64_t now_ms() const;

  HttpWorker& worker_;
  HttpListener& listener_;
  HttpSession* session_;  // As long as client_ is not null.
  HttpStream* client_;    // Null once released.
  HttpStream* upstream_ = nullptr;
  UpstreamConnection* connection_ = nullptr;  // That upstream_ is on.
  HttpUpstream* to_ = nullptr;                // Where it is forwarded to.
  const config::HttpRoute* route_ = nullptr;  // Once it is chosen.
  Head request_;                              // Until nothing needs it any more.
  Text asked_path_, asked_authority_;         // That it came with, where they were rewritten.
  Buffer held_;                               // Body that has come before there is a connection,
  Fields held_trailers_;                      // and what is behind it.
  Timer timer_;
  uint64_t started_ms_;
  uint64_t deadline_ms_ = UINT64_MAX;  // For all of it.
  uint64_t last_active_ms_;
  uint64_t last_request_ms_;       // Something of the request came.
  uint64_t last_response_ms_;      // The client took something of the response,
  uint64_t last_passed_ms_ = 0;    // or the upstream of the request.
  uint64_t asked_ms_ = 0;          // The request was complete with the upstream, or began to wait for a connection.
  uint64_t started_us_ = 0;        // Where there is a log,
  uint64_t response_head_us_ = 0;  // and when the response came, after that.
  uint64_t request_bytes_ = 0;
  uint64_t response_bytes_ = 0;
  TriedEndpoints tried_;
  uint32_t attempts_ = 0;
  uint32_t endpoint_ = 0;
  uint16_t status_ = 0;  // That the client was told.
  HttpEnd end_ = HttpEnd::kOk;
  ResetReason upstream_reason_ = ResetReason::kInternal;
  bool endpoint_counted_ = false;
  bool waiting_ = false;  // For a connection.
  bool wants_fresh_ = false;
  bool request_ended_ = false;  // All of it has come.
  bool body_passed_ = false;    // Some of it is with an upstream, and gone from here.
  bool request_paused_ = false;
  bool response_begun_ = false;
  bool response_ended_ = false;
  bool response_paused_ = false;
  bool tunnel_ = false;           // Asked for,
  bool tunnel_agreed_ = false;    // and there.
  bool used_connection_ = false;  // By others before.
  bool grpc_ = false;
  bool deadline_is_grpc_ = false;
};

}  // namespace sluice
