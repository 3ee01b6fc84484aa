#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "buffer/buffer.h"
#include "net/timer_wheel.h"
#include "pool/chunk_pointer.h"
#include "proxy/compression/content_coding.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/head.h"
#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/fault.h"
#include "proxy/http/proxy/identity.h"
#include "proxy/http/proxy/upstream_request.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/router/request_attributes.h"

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

/// One request of a client and its response: a stream of the client's connection, the stream of an endpoint's
/// connection that it is forwarded on, and the bytes between them. What one stream receives goes straight to the other;
/// a side that takes nothing has the other stop reading.
///
/// It lies in memory of the HttpWorker, and gives it back when both streams are released.
class Exchange final : public UpstreamRequest {
 public:
  static Exchange& begin(HttpSession& session, HttpStream& client);
  /// Ends it now: the time to drain is over.
  void shut_down() { fail(HttpEnd::kShutdown); }
  /// Of what the client asked for, whatever has become of it. Good until the request changes.
  RequestAttributes facts() const override;
  bool may_repeat() const override;

  // For its hedge, which may be destroyed by the last two.
  /// Sends the whole request on a stream of the hedge's. Returns the time.
  uint64_t send_hedge(HttpStream& stream);
  /// With a final response; the stream is the exchange's from then on, or released.
  void hedge_answered(Head&& head, bool end);
  void end_hedge();

 private:
  /// Of a body, so much is kept until the response begins, for the request may have to be sent again. As Envoy's
  /// per_request_buffer_limit is mostly set.
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
  /// By which the client asked, if a trusted proxy tells; else by which it came here.
  std::string_view scheme() const;
  [[nodiscard]] bool tell_origin();
  bool make_canonical();
  [[nodiscard]] bool admit();
  void on_password_checked(bool fits);
  void serve();
  bool takes_protocol() const;
  std::string_view asked_path() const;
  std::string_view asked_authority() const;
  bool is_too_much_body(uint64_t bytes) const;
  [[nodiscard]] bool change_request();
  [[nodiscard]] bool rewrite(const config::Rewrite& rewrite);
  void find_deadline();
  void send_request();
  void request_body(Buffer&& body, bool end);
  void pause_request();
  void resume_request();
  void request_trailers(Fields&& trailers);
  // What HTTP asks of whoever passes a request on.
  static bool has_underscore(const Fields& fields);
  [[nodiscard]] bool take_expectations();
  bool would_agree_to_tunnel(uint16_t status) const;
  [[nodiscard]] bool count_hop();
  void drop_reserved(Fields& trailers);
  [[nodiscard]] bool add_date(Head& head);
  void begin_mirror();
  void pass_body(Buffer&& body, bool end);
  void pass_trailers(Fields&& trailers);
  bool awaits_upstream() const { return waiting_ || again_at_ms_ != 0; }

  // Bodies that wait.
  ChunkPointer<BodyBuffer> make_waiting(uint64_t max_bytes, void (*moved)(void* self));
  size_t waiting_share() const;
  bool collect_request();
  void go_on_with_request();
  void pass_waiting_request();
  [[nodiscard]] bool tell_length();
  bool keeps_response() const;
  bool must_wait(const Buffer& body) const;
  void keep_for_client(Buffer&& body);
  void go_on_with_response();

  // Again.
  bool is_asked_for(config::RetryOn why) const;
  bool take_retry(config::RetryOn why);
  bool note_budget(bool within);
  // How often it was sent, but for those that perhaps nobody saw.
  uint32_t tries() const { return sent_ - lost_unseen_; }
  bool is_lost_unseen(ResetReason reason) const;
  std::optional<config::RetryOn> retry_reason(const Head& head, bool end) const;
  bool retry_instead_of(const Head& head, bool end);
  void response_timed_out();
  void retry();
  void take_body_back();
  void send_again();

  // At once.
  config::Duration hedge_after() const;
  bool awaits_hedge() const;
  void hedge();
  void go_on_with_hedge();

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
  [[nodiscard]] bool tell_request_id(Head& head);
  [[nodiscard]] bool add_access_fields(Head& head);
  void upstream_reset(ResetReason reason);
  Fault fault_of_reset(ResetReason reason) const;
  void cut_response(HttpEnd why);
  bool holds_response() const;

  // Its compression.
  void choose_coding();
  [[nodiscard]] bool begin_compression(Head& head, bool end);
  void compress(Buffer&& body, bool end);
  void go_on_compressing();
  void compress_piece();
  void pass_compressed(Buffer&& out, bool end);
  void end_compression(Buffer&& out);

  /// Ends it without a response of the upstream's: with one of our own, or by resetting what has begun.
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
  HttpSession* session_;                           // As long as client_ is not null.
  HttpStream* client_;                             // Null once released.
  const config::HttpRoute* route_ = nullptr;       // Once it is chosen.
  const HttpTarget* target_ = nullptr;             // Likewise.
  PasswordCheck* password_check_ = nullptr;        // That it waits for.
  Head request_;                                   // Until nothing needs it any more.
  Text asked_path_, asked_authority_;              // That it came with, where they were rewritten.
  Text origin_;                                    // Of the page that asks, where the route has CORS.
  Text response_fields_;                           // KeptValues, for the log.
  RequestIdentity identity_;                       // Where the listener asks for it.
  Buffer held_;                                    // Body that has come before there is a connection,
  Fields held_trailers_;                           // and what is behind it.
  MirroredRequest* mirror_ = nullptr;              // That gets all that comes of the request.
  ChunkPointer<HedgedRequest> hedge_;              // The same with another endpoint, while neither has answered.
  Buffer kept_;                                    // What was sent of it, for it may be sent again.
  ChunkPointer<BodyBuffer> waiting_request_;       // Where it is collected: all of it passes through this.
  ChunkPointer<BodyBuffer> waiting_response_;      // From when the client was slow, the rest of it does.
  ChunkPointer<ResponseCompression> compression_;  // While the response is compressed.
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
  uint64_t again_at_ms_ = 0;  // When the request is sent again; 0: not now.
  uint32_t sent_ = 0;         // How often;
  uint32_t lost_unseen_ = 0;  // of these, perhaps seen by nobody.
  uint16_t status_ = 0;       // That the client was told.
  HttpEnd end_ = HttpEnd::kOk;
  ResetReason upstream_reason_ = ResetReason::kInternal;
  bool hostless_ = false;        // It came without a host, as HTTP/1.0 may.
  bool request_ended_ = false;   // All of it has come.
  bool body_passed_ = false;     // Some of it is with an upstream, and gone from here.
  bool collecting_ = false;      // It is sent when it is here as a whole.
  bool request_passed_ = false;  // All of waiting_request_ is with the upstream.
  bool request_paused_ = false;
  bool response_begun_ = false;
  bool response_ended_ = false;
  bool response_cut_ = false;  // It ends early: once what came of it is with the client.
  bool response_paused_ = false;
  bool tunnel_ = false;           // Asked for,
  bool tunnel_agreed_ = false;    // and there.
  bool used_connection_ = false;  // By others before.
  bool hedged_ = false;           // There was a hedge, or none to be had, since it was last sent.
  bool by_hedge_ = false;         // It goes on with what was one.
  bool grpc_ = false;
  bool deadline_is_grpc_ = false;
  bool negotiates_coding_ = false;  // The response depends on what the client takes:
  ContentCoding coding_ = ContentCoding::kIdentity;
};

}  // namespace sluice
