#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/http/message/head.h"
#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/fault.h"
#include "proxy/http/proxy/movable_stream.h"
#include "proxy/http/proxy/phases/phases.h"
#include "proxy/http/proxy/request_body.h"
#include "proxy/http/proxy/request_context.h"
#include "proxy/http/proxy/request_deadlines.h"
#include "proxy/http/proxy/request_log.h"
#include "proxy/http/proxy/request_trace.h"
#include "proxy/http/proxy/response_body.h"
#include "proxy/http/proxy/upstream_attempts.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/metrics/latencies.h"
#include "proxy/router/request_attributes.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

/// One request and its response: a stream of the client's connection, a stream of an endpoint's connection, and the
/// bytes between them. Data from one stream goes straight to the other. A side that takes no more data makes the other
/// side stop reading.
///
/// It owns the order of events and the end of the request. Its state is in its parts: RequestContext (the request and
/// its client), UpstreamAttempts, RequestBody, ResponseBody, RequestDeadlines, RequestLog, and the states of phases.
///
/// It lies in memory of the HttpWorker. When both streams are released, it is over, and its memory returns at the end
/// of the turn. So its functions may be called, and its members used, until the turn ends, whatever was called before.
class Exchange final : public UpstreamAttempts, public RequestContext, private MovableStream {
 public:
  static Exchange& begin(HttpSession& session, HttpStream& client);

  // UpstreamCaller
  RequestAttributes facts() const override { return attributes(); }
  bool may_repeat() const override;
  config::Priority priority() const override { return target_->route->priority; }
  uint64_t waiting_since_ms() const override { return deadlines_.waiting_since_ms; }
  void on_turn() override { send_request(); }
  // HedgedRequest::Owner
  uint64_t send_hedge(HttpStream& stream) override;
  void on_hedge_response(Head&& head, bool end) override;

 private:
  friend HttpWorker;  // Destroys it.
  using Deadline = RequestDeadlines::Deadline;

  Exchange(HttpSession& session, HttpStream& client);
  ~Exchange();

  // StreamReceiver
  void on_head(HttpStream& stream, Head&& head, bool end) override;
  void on_body(HttpStream& stream, Buffer&& body, bool end) override;
  void on_trailers(HttpStream& stream, Fields&& trailers) override;
  void on_reset(HttpStream& stream, ResetReason reason) override;
  void on_broken(HttpStream& stream, const BrokenMessage& message) override;
  void on_drained(HttpStream& stream) override;
  Destination destination() const override;
  MovableStream* movable_stream() override { return response_.begun() ? this : nullptr; }
  // MovableStream
  bool can_move() const override;
  HttpSession* client_session() override { return session_; }
  UpstreamConnection* shared_connection() override;
  StreamPairState pair_state() const override;
  ForwardingState forwarding_state() const override;
  void begin_moving() override;
  void stay() override;
  bool pass_all_on() override;
  Transport& endpoint_transport() override;
  MovingSession::Endpoint endpoint_names() const override;
  void depart() override;
  bool can_settle() const override;
  void settle_as(ClientAcceptor& acceptor, SettlingClient&& client) override;
  void on_endpoint_detached() override;
  void on_endpoint_ends() override;
  // UpstreamCaller
  void on_upstream(UpstreamConnection& connection, HttpStream& stream) override;
  void on_no_upstream(HttpEnd why) override;
  void on_connect_failed() override;
  // PhaseContext
  void keep_user(std::string_view name) override { log_.keep_user(*this, name); }
  void resume(const PhaseResult& result) override;
  void hold() override;
  void mirror(uint32_t upstream) override;
  PhaseResult collect(uint64_t most_bytes) override;
  SideCall* authorize(uint32_t upstream, Head&& request, uint64_t timeout_ms, SideCall::Caller& caller) override;
  SideCall* call_grpc(uint32_t upstream, std::string_view path, std::string_view message, uint64_t timeout_ms,
                      SideCall::Caller& caller) override;
  PeerAddress local_address() const override;
  void compress_response(ContentCoding coding) override { response_.compress(coding); }
  ChunkPointer<BodyPacer> pace_request(const Bandwidth& limits) override;
  ChunkPointer<BodyPacer> pace_response(const Bandwidth& limits) override;
  // RequestContext
  void on_request_moved() override;
  void on_request_turn(Buffer&& body, bool end) override { request_body(std::move(body), end); }
  void on_request_turn(Fields&& trailers) override { request_trailers(std::move(trailers)); }
  void on_response_moved() override;

  // The request.
  void take_request(bool end);
  /// Notes and logs that the request breaks a rule that its codec does not check.
  void note_broken(BrokenMessage message);
  void advance();
  [[nodiscard]] bool run_phases();
  [[nodiscard]] bool obey(const PhaseResult& result);
  void stop_phase();
  SideCall* await(SideCall* call);
  void leave_body_at_client();
  [[nodiscard]] bool begin_forwarding();
  bool is_body_too_large(uint64_t bytes) const;
  void find_deadline();
  void forward();
  void send_request();
  void request_body(Buffer&& body, bool end);
  void request_trailers(Fields&& trailers);
  /// Whether body that arrives has to wait: for an upstream, or for a phase.
  bool holds_request() const;
  void continue_request();

  // Attempts.
  [[nodiscard]] bool take_another(config::RetryOn why);
  bool was_lost_unseen(ResetReason reason) const;
  Fault fault_of_reset(ResetReason reason) const;
  bool is_cancelled_at_deadline(ResetReason reason) const;
  void upstream_reset(ResetReason reason);
  [[nodiscard]] bool retry_instead_of(const Head& head, bool end);
  void response_timed_out();
  void retry();
  void resend();
  void hedge();
  void use_hedge();

  // The response.
  void take_response(Head&& head, bool end);
  void response_body(Buffer&& body, bool end);
  void response_trailers(Fields&& trailers);
  void note_grpc_status(const Fields& fields);
  uint16_t status_of(const Head& head, bool end) const;
  void regulate_response();
  [[nodiscard]] bool run_response_phases(PhaseStep step, Head& head, bool end);
  [[nodiscard]] bool change_response(Head& head, bool end);
  void respond(uint16_t status, std::string_view content_type, std::string_view body, std::string_view location = {});
  void respond_with(HttpEnd why, OtherResponse&& response);
  void respond_error(uint16_t status, std::string_view message);
  void respond_grpc(HttpEnd why);

  // The end.
  /// Ends the exchange without a response from the upstream: sends a response of our own, or resets a response that has
  /// begun. `status`: of our response, if it is not the usual one for this end.
  void fail(HttpEnd why, uint16_t status = 0);
  void cut_response(HttpEnd why);
  bool holds_response() const;
  void client_reset(ResetReason reason);
  void release_client();
  RequestLatencies& latencies() const;
  void note_first_byte();
  void note_response_end();
  void settle();
  void retire();
  void finish();
  void leave_streams();

  // Tracing.
  [[nodiscard]] bool is_admitted();
  void begin_trace();
  void note_pinned();
  /// The attempt has failed, for the reason or with the status of its response.
  void trace_failure(std::string_view reason, uint16_t status = 0);

  // Time.
  template <class Visit>
  bool visit_deadlines(const Visit& visit) const;
  void watch();
  void on_timer();
  [[nodiscard]] bool expire(RequestDeadlines::Kind kind);
  config::Duration idle_timeout() const;
  config::Duration response_timeout() const;
  config::Duration hedge_after() const;
  bool awaits_response() const { return upstream_ && request_ended_ && !response_.begun(); }
  bool awaits_body() const;
  bool awaits_turn() const { return response_.awaits_turn() || body_.awaits_turn(); }
  bool awaits_client() const;
  bool awaits_hedge() const { return request_ended_ && (upstream_ || (waiting_ && forward_list() == kNoList)); }
  uint64_t client_progress_ms() const;
  uint64_t stuck_since_ms() const;
  void note_activity() { deadlines_.active_ms = now_ms(); }

  static constexpr uint8_t kMaxGrpcStatus = 16, kNoGrpcStatus = 31;  // They have five bits.

  // Small members lie in the unused ends of larger ones.
  [[no_unique_address]] RequestBody body_;
  uint16_t status_ = 0;  // Of the response to the client.
  ResetReason upstream_reason_ = ResetReason::kInternal;
  PhaseStep step_ = PhaseStep::kAdmit;  // The step of the request.
  [[no_unique_address]] ResponseBody response_;
  uint16_t next_phase_ : 5 = 0;               // The next phase of the step.
  uint16_t grpc_status_ : 5 = kNoGrpcStatus;  // That the client was sent.
  bool phase_waits_ : 1 = false;              // A phase will resume the request.
  bool held_ : 1 = false;                     // That wait is no idle time.
  bool tunnel_agreed_ : 1 = false;            // The upstream accepted the tunnel.
  bool deadline_is_grpc_ : 1 = false;         // The deadline of the whole exchange is that of a gRPC client.
  bool over_ : 1 = false;                     // Both streams are released.
  uint32_t place_;                            // In HttpListener::exchanges.
  ChunkPointer<RequestTrace> trace_;          // Null unless the request is recorded.
  RequestLog log_;
};

}  // namespace sluice
