#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "net/timer_wheel.h"
#include "proxy/compression/content_coding.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/head.h"
#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/fault.h"
#include "proxy/http/proxy/identity.h"
#include "proxy/http/proxy/upstream_request.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/router/request_attributes.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

struct HttpListener;
struct HttpTarget;
class HttpSession;
class HedgedRequest;
class MirroredRequest;
class BodyBuffer;
class HttpWorker;
struct ResponseCompression;
class PasswordCheck;

/// One request and its response: a stream of the client's connection, a stream of an endpoint's connection, and the
/// bytes between them. Data from one stream goes straight to the other. A side that takes no more data makes the other
/// side stop reading.
///
/// It lies in memory of the HttpWorker, and returns that memory when both streams are released.
class Exchange final : public UpstreamRequest {
 public:
  static Exchange& begin(HttpSession& session, HttpStream& client);
  /// Fails the request now: the time to drain is over.
  void shut_down() { fail(HttpEnd::kShutdown); }
  /// The attributes of the request as the client sent it, before any rewrite. Valid until the request changes.
  RequestAttributes facts() const override;
  bool may_repeat() const override;

  // Called by its hedge. The last two calls may destroy the hedge.
  /// Sends the whole request on the hedge's stream. Returns the time in milliseconds.
  uint64_t send_hedge(HttpStream& stream);
  /// Takes the head of the hedge's final response. From then on the stream belongs to the exchange, or is released.
  void on_hedge_response(Head&& head, bool end);
  void end_hedge();

 private:
  /// How much of a body is kept until the response begins, in case the request has to be retried. The usual setting of
  /// Envoy's per_request_buffer_limit.
  static constexpr size_t kMaxKeptBytes = size_t{64} * 1024;

  Exchange(HttpSession& session, HttpStream& client);
  ~Exchange();

  // StreamReceiver
  void on_head(HttpStream& stream, Head&& head, bool end) override;
  void on_body(HttpStream& stream, Buffer&& body, bool end) override;
  void on_trailers(HttpStream& stream, Fields&& trailers) override;
  void on_reset(HttpStream& stream, ResetReason reason) override;
  void on_drained(HttpStream& stream) override;
  // UpstreamRequest
  void on_upstream(UpstreamConnection& connection, HttpStream& stream) override;
  void on_no_upstream(HttpEnd why) override;
  void on_connect_failed() override;

  // The request.
  void take_request(bool end);
  [[nodiscard]] bool find_identity();
  const ClientIp& client_ip() const;
  /// The scheme that a trusted proxy reports for the client; otherwise the scheme of the connection to this proxy.
  std::string_view scheme() const;
  [[nodiscard]] bool add_origin_fields();
  bool make_canonical();
  [[nodiscard]] bool admit();
  void on_password_checked(bool fits);
  void serve();
  bool takes_protocol() const;
  std::string_view original_path() const;
  std::string_view original_authority() const;
  bool is_body_too_large(uint64_t bytes) const;
  [[nodiscard]] bool change_request();
  [[nodiscard]] bool rewrite(const config::Rewrite& rewrite);
  void find_deadline();
  void send_request();
  void request_body(Buffer&& body, bool end);
  void pause_request();
  void resume_request();
  void request_trailers(Fields&& trailers);
  // HTTP's rules for an intermediary.
  static bool has_underscore(const Fields& fields);
  [[nodiscard]] bool take_expectations();
  bool would_agree_to_tunnel(uint16_t status) const;
  [[nodiscard]] bool count_hop();
  void drop_reserved(Fields& trailers);
  [[nodiscard]] bool add_date(Head& head);
  void begin_mirror();
  void pass_body(Buffer&& body, bool end);
  void pass_trailers(Fields&& trailers);
  bool awaits_upstream() const { return waiting_ || retry_at_ms_ != 0; }

  // Buffered bodies.
  ChunkPointer<BodyBuffer> make_body_buffer(uint64_t max_bytes, void (*moved)(void* self));
  size_t waiting_share() const;
  bool collect_request();
  void continue_request();
  void pass_waiting_request();
  [[nodiscard]] bool add_content_length();
  bool keeps_response() const;
  bool must_wait(const Buffer& body) const;
  void keep_for_client(Buffer&& body);
  void continue_response();

  // Retries.
  bool is_retried_on(config::RetryOn why) const;
  bool take_retry(config::RetryOn why);
  bool note_budget(bool within);
  // How often the request was sent, without the attempts that perhaps no endpoint saw.
  uint32_t tries() const { return sent_ - lost_unseen_; }
  bool is_lost_unseen(ResetReason reason) const;
  std::optional<config::RetryOn> retry_reason(const Head& head, bool end) const;
  bool retry_instead_of(const Head& head, bool end);
  void response_timed_out();
  void retry();
  void take_body_back();
  void resend();

  // Hedging.
  config::Duration hedge_after() const;
  bool awaits_hedge() const;
  void hedge();
  void switch_to_hedge();

  // The response.
  void take_response(Head&& head, bool end);
  void response_body(Buffer&& body, bool end);
  void response_trailers(Fields&& trailers);
  void pass_response(Buffer&& body, bool end);
  void pass_response_trailers(Fields&& trailers);
  void respond(uint16_t status, std::string_view content_type, std::string_view body, std::string_view location = {});
  void redirect(const config::Redirect& redirect);
  void respond_error(uint16_t status, std::string_view message);
  size_t response_queued() const;
  void pause_response();
  void resume_response();
  [[nodiscard]] bool change_response(Head& head);
  [[nodiscard]] bool return_request_id(Head& head);
  [[nodiscard]] bool add_access_fields(Head& head);
  void upstream_reset(ResetReason reason);
  Fault fault_of_reset(ResetReason reason) const;
  void cut_response(HttpEnd why);
  bool holds_response() const;

  // Compression of the response.
  void choose_coding();
  [[nodiscard]] bool begin_compression(Head& head, bool end);
  void compress(Buffer&& body, bool end);
  void continue_compressing();
  void compress_piece();
  void pass_compressed(Buffer&& out, bool end);
  void end_compression(Buffer&& out);

  /// Ends the exchange without a response from the upstream: sends a response of our own, or resets a response that has
  /// begun.
  void fail(HttpEnd why);
  void respond_grpc(HttpEnd why);

  // The end.
  void client_reset(ResetReason reason);
  void release_client();
  void settle();
  void destroy();
  void finish();
  void keep_response_fields(const Head& head);
  void log();
  std::string_view route_name(std::span<char, 8> room) const;
  static uint64_t log_time_us();

  void on_timer();
  void watch();
  config::Duration idle_timeout() const;
  config::Duration response_timeout() const;
  bool awaits_response() const;
  bool awaits_body() const;
  bool awaits_client() const;
  uint64_t client_progress_ms() const;
  uint64_t stuck_since_ms() const;
  void note_activity();
  size_t high_mark() const;
  const config::Http& config() const;
  uint64_t now_ms() const;

  HttpWorker& worker_;
  HttpListener& listener_;
  HttpSession* session_;                           // Valid while client_ is not null.
  HttpStream* client_;                             // Null once released.
  const config::HttpRoute* route_ = nullptr;       // Null until it is chosen.
  const HttpTarget* target_ = nullptr;             // Null until it is chosen.
  PasswordCheck* password_check_ = nullptr;        // The pending check of the client's password, or null.
  Head request_;                                   // Cleared when nothing needs it.
  Text original_path_, original_authority_;        // As received, if they were rewritten.
  Text origin_;                                    // The value of Origin, if the route has CORS.
  Text response_fields_;                           // KeptValues for the log.
  RequestIdentity identity_;                       // If the listener identifies requests.
  Buffer held_;                                    // Body received before there is a connection.
  Fields held_trailers_;                           // Trailers to send after the body.
  MirroredRequest* mirror_ = nullptr;              // Receives a copy of all request data.
  ChunkPointer<HedgedRequest> hedge_;              // The hedge, until it or the first endpoint has responded.
  Buffer kept_;                                    // Body that was sent and may have to be resent.
  ChunkPointer<BodyBuffer> waiting_request_;       // If the request is buffered: the whole body passes through it.
  ChunkPointer<BodyBuffer> waiting_response_;      // If the client is slow: the rest of the body passes through it.
  ChunkPointer<ResponseCompression> compression_;  // Set while the response is compressed.
  Timer timer_;
  uint64_t started_ms_;
  uint64_t deadline_ms_ = UINT64_MAX;  // For the whole exchange.
  uint64_t last_active_ms_;
  uint64_t last_request_ms_;       // Request data last arrived, or reading resumed.
  uint64_t last_response_ms_;      // The client last took response data.
  uint64_t last_passed_ms_ = 0;    // The upstream last took request data.
  uint64_t waiting_since_ms_ = 0;  // The request was complete at the upstream, or began to wait for a connection.
  uint64_t started_us_ = 0;        // Start of the request, if there is a log.
  uint64_t response_head_us_ = 0;  // Time from started_us_ to the response head; 0: none yet.
  uint64_t request_bytes_ = 0;
  uint64_t response_bytes_ = 0;
  uint64_t retry_at_ms_ = 0;  // When the request is resent; 0: no retry is scheduled.
  uint32_t sent_ = 0;         // How often the request was sent.
  uint32_t lost_unseen_ = 0;  // How many of these attempts perhaps no endpoint saw.
  uint16_t status_ = 0;       // Of the response to the client.
  HttpEnd end_ = HttpEnd::kOk;
  ResetReason upstream_reason_ = ResetReason::kInternal;
  bool hostless_ = false;        // The request has no host, as HTTP/1.0 allows.
  bool request_ended_ = false;   // The whole request has arrived.
  bool body_passed_ = false;     // An upstream has part of the body, and no copy was kept.
  bool collecting_ = false;      // The request is sent once all of it is buffered.
  bool request_passed_ = false;  // All of waiting_request_ was passed to the upstream.
  bool request_paused_ = false;
  bool response_begun_ = false;
  bool response_ended_ = false;
  bool response_cut_ = false;  // The response ends early: as soon as the client has the part that arrived.
  bool response_paused_ = false;
  bool tunnel_ = false;           // The client requested a tunnel.
  bool tunnel_agreed_ = false;    // The upstream accepted the tunnel.
  bool used_connection_ = false;  // Other requests used the connection before.
  bool hedged_ = false;           // Since the request was last sent, a hedge was made or none was possible.
  bool by_hedge_ = false;         // The exchange has switched to its hedge.
  bool grpc_ = false;
  bool deadline_is_grpc_ = false;
  bool negotiates_coding_ = false;  // The response depends on Accept-Encoding.
  ContentCoding coding_ = ContentCoding::kIdentity;
};

}  // namespace sluice
