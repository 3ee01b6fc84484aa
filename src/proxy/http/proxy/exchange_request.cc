// The way of a request through an exchange: its head, its phases, and its body.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "net/worker.h"
#include "proxy/http/message/message_rules.h"
#include "proxy/http/proxy/authorization_request.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/http/proxy/grpc_call.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/request_rules.h"
#include "proxy/http/proxy/upstream_connection.h"
#include "proxy/rate_limit/body_pacer.h"
#include "proxy/router/http_router.h"

namespace sluice {

void Exchange::take_request(bool end) {
  request_ended_ = end;
  grpc_ = is_grpc(request_);
  watch();
  if (listener_.identifies && !find_identity()) return fail(HttpEnd::kBadRequest);
  if (identity_.recorded) begin_trace();
  const bool connect = connects();
  tunnel_ = connect || !request_.protocol().empty();
  if (connect ? !config().allow_connect : tunnel_ && !takes_protocol()) return fail(HttpEnd::kNotAllowed);
  if (tunnel_ && end) return fail(HttpEnd::kBadRequest);  // A tunnel that has ended before it began.
  hostless_ = request_.authority().empty();
  if (hostless_ && session_->http2()) return fail(HttpEnd::kBadRequest);  // Only HTTP/1.0 may omit it.
  // The scheme of the connection counts, not the one that the client sent.
  if (request_.scheme() != scheme() && !connect && !request_.set(pool(), Head::Part::kScheme, scheme())) {
    return fail(HttpEnd::kBadRequest);
  }
  if (session_->http2()) {
    // The HTTP/1.1 codec has checked these already.
    if (!is_method_to_forward(request_.method())) return fail(HttpEnd::kNotAllowed);
    if (!listener_.codecs->http1.allow_underscores && has_underscore(request_.fields)) {
      note_broken({.rule = "a field name with an underscore"});
      return fail(HttpEnd::kBadRequest);
    }
    if (!take_expectations(pool(), request_, /*has_body=*/!request_ended_ && !tunnel_)) {
      note_broken({.rule = "an expectation that is not 100-continue"});
      end_ = HttpEnd::kBadRequest;
      return respond_error(417, "the expectation is not supported");
    }
  }
  if (!connect && !make_canonical()) return fail(HttpEnd::kBadPath);
  find_route();
  if (listener_.shared && !connect && is_misdirected()) [[unlikely]]
    return fail(HttpEnd::kMisdirected);
  if (http_worker().overload().sheds() && !is_admitted()) [[unlikely]]
    return;
  advance();
}

// The worker has too many requests. False if this one is refused, now or later.
bool Exchange::is_admitted() {
  const config::HttpRoute* const route = target_ ? target_->route.get() : nullptr;
  if (route && route->readiness) return true;
  PacedRefusals& refusals = http_worker().refusals();
  if (http_worker().overload().sheds(route ? route->priority : config::Priority::kNormal)) {
    return obey(refusals.on_request(*this));
  }
  refusals.note_admitted();
  return true;
}

void Exchange::begin_trace() {
  const std::optional<TraceParent> request = TraceParent::parse(request_.fields.value("traceparent"));
  if (request) trace_ = make_in_chunk<RequestTrace>(pool(), *this, *listener_.tracing, *request);
}

// Takes the request through its steps, until it has ended or has to wait.
void Exchange::advance() {
  if (step_ == PhaseStep::kAdmit) {
    if (!run_phases()) return;
    if (!target_) return fail(HttpEnd::kNoRoute);
    step_ = PhaseStep::kAct;
  }
  if (step_ == PhaseStep::kAct) {
    if (!run_phases() || !begin_forwarding()) return;
    step_ = PhaseStep::kForward;
  }
  if (step_ == PhaseStep::kForward) {
    if (!run_phases()) return;
    // A server needs a host. A request without one gets the upstream's name, as with nginx.
    if (request_.authority().empty() && !request_.set(pool(), Head::Part::kAuthority, to_->config().name)) {
      return fail(HttpEnd::kBadRequest);
    }
    watch();  // The upstream adds timeouts.
    to_->retry_budget().note_request(now_ms());
    step_ = PhaseStep::kSend;
  }
  if (run_phases()) return forward();
  if (body_.collecting()) continue_request();
}

// Runs the phases of the current step that have not run. Returns whether the request goes on.
bool Exchange::run_phases() {
  if (!phases_) return true;
  const std::vector<Phase*>& phases = phases_->at(step_);
  while (next_phase_ < phases.size()) {
    if (!obey(phases[next_phase_++]->on_request(*this))) return false;
  }
  next_phase_ = 0;
  return true;
}

// Returns whether the request goes on.
bool Exchange::obey(const PhaseResult& result) {
  switch (result.kind) {
    case PhaseResult::Kind::kContinue:
      return true;
    case PhaseResult::Kind::kWait:
      phase_waits_ = true;
      deadlines_.waiting_since_ms = now_ms();  // Body that arrives from now on waits.
      break;
    case PhaseResult::Kind::kFail:
      fail(result.end, result.status);
      break;
    case PhaseResult::Kind::kRespond:
      respond(result.status, result.content_type, result.body, result.location);
      break;
    case PhaseResult::Kind::kRespondWith:
      respond_with(result.end, std::move(*result.other));
      break;
  }
  return false;
}

void Exchange::resume(const PhaseResult& result) {
  if (!phase_waits_) return;
  phase_waits_ = held_ = false;
  note_activity();
  deadlines_.request_ms = deadlines_.active_ms;  // The client may have been paused.
  if (result.kind != PhaseResult::Kind::kContinue || !target_ || !target_->forwards()) body_.drop_held();
  if (obey(result)) advance();
}

// The request has ended while a phase made it wait.
void Exchange::stop_phase() {
  if (!phase_waits_) return;
  phase_waits_ = held_ = false;
  for (PhaseState* state = states_.get(); state; state = state->next.get()) state->stop();
  if (client_) body_.drop_held();
}

SideCall* Exchange::authorize(uint32_t upstream, Head&& request, uint64_t timeout_ms, SideCall::Caller& caller) {
  return await(AuthorizationRequest::begin(http_worker(), *listener_.upstreams[upstream], std::move(request),
                                           timeout_ms, caller));
}

SideCall* Exchange::call_grpc(uint32_t upstream, std::string_view path, std::string_view message, uint64_t timeout_ms,
                              SideCall::Caller& caller) {
  return await(GrpcCall::begin(http_worker(), *listener_.upstreams[upstream], path, message, timeout_ms, caller));
}

SideCall* Exchange::await(SideCall* call) {
  if (call) leave_body_at_client();
  return call;
}

void Exchange::hold() {
  held_ = true;
  leave_body_at_client();
  if (target_) find_deadline();
  watch();
}

// A tunnel carries nothing before it is accepted.
void Exchange::leave_body_at_client() {
  if (!request_ended_ && !tunnel_) body_.pause(true);
}

PeerAddress Exchange::local_address() const { return session_->local_address(); }

ChunkPointer<BodyPacer> Exchange::pace_request(const Bandwidth& limits) { return body_.pace(limits); }
ChunkPointer<BodyPacer> Exchange::pace_response(const Bandwidth& limits) { return response_.pace(limits); }

// Chooses the upstream, and does what every forwarded request is subject to. Returns false if it is not forwarded.
bool Exchange::begin_forwarding() {
  if (!obey(count_hop(pool(), request_, original_path()))) return false;
  const uint32_t share = target_->choose(http_worker().random());
  static_assert(uint16_t(HttpTarget::kNone) == kNoShare);
  share_ = static_cast<uint16_t>(share);
  to_ = listener_.upstreams[target_->upstream_of(share)].get();
  uint64_t declared_bytes = 0;  // 0 without a Content-Length. The codecs have checked that it is a number.
  if (!absl::SimpleAtoi(request_.fields.value("content-length"), &declared_bytes)) declared_bytes = 0;
  if (is_body_too_large(std::max(declared_bytes, body_.bytes()))) {
    fail(HttpEnd::kBodyTooLarge);
    return false;
  }
  find_deadline();
  if (add_origin_fields()) return true;
  fail(HttpEnd::kBadRequest);
  return false;
}

bool Exchange::is_body_too_large(uint64_t bytes) const {
  const uint64_t limit = target_->route->max_body.value_or(config().max_body).bytes;
  return limit > 0 && bytes > limit && !tunnel_;
}

void Exchange::mirror(uint32_t upstream) { body_.begin_mirror(*listener_.upstreams[upstream]); }

PhaseResult Exchange::collect(uint64_t most_bytes) {
  body_.begin_buffering(most_bytes);
  if (request_.fields.remove("expect") == 0) return PhaseResult::wait();
  // No upstream can send the 100 (Continue) yet.
  Head interim;
  interim.status = 100;
  client_->send_head(interim, false);
  session_->wake();
  return PhaseResult::wait();
}

// A retry does not wait for a turn, as the request has waited for one.
void Exchange::forward() {
  deadlines_.waiting_since_ms = now_ms();
  if (priority() == config::Priority::kHigh || !wait_for_turn(/*alone=*/session_->streams() == 1)) send_request();
}

void Exchange::send_request() {
  deadlines_.waiting_since_ms = now_ms();
  if (trace_) trace_->begin_attempt();
  call(request_ended_);
}

void Exchange::on_upstream(UpstreamConnection& connection, HttpStream& stream) {
  begin_attempt(connection, stream);
  to_->latencies().queue.add(now_ms() - deadlines_.waiting_since_ms);
  if (!request_.protocol().empty() && !connection.accepts_protocols()) return fail(HttpEnd::kUpstreamRefused);
  deadlines_.waiting_since_ms = deadlines_.passed_ms = now_ms();
  if (!request_ended_) note_incomplete();
  if (trace_) trace_->send_attempt();
  if (!body_.add_content_length()) return fail(HttpEnd::kBadRequest);
  if (body_.buffered()) {
    upstream_->send_head(request_, false);
    return continue_request();
  }
  const bool end = request_ended_ && !tunnel_ && body_.empty();
  upstream_->send_head(request_, end);
  if (end) return;
  body_.send_held(*upstream_);
  if (body_.paused()) body_.pause(false);
}

void Exchange::request_body(Buffer&& body, bool end) {
  body_.count(body.size());
  deadlines_.request_ms = deadlines_.active_ms;
  request_ended_ = request_ended_ || end;
  if (to_ && !response_.begun() && is_body_too_large(body_.bytes())) {
    body.clear();
    return fail(HttpEnd::kBodyTooLarge);
  }
  body_.mirror(body, end);
  if (body_.buffered()) {
    body_.add_to_buffer(std::move(body));
    if (log_.begun()) note_pinned();
    return continue_request();
  }
  if (upstream_) {
    deadlines_.waiting_since_ms = deadlines_.active_ms;
    if (upstream_->queued() == 0) deadlines_.passed_ms = deadlines_.active_ms;
    body_.pass(*upstream_, std::move(body), end);
    if (end) note_sent();
    connection_->wake();
    if (!end && upstream_->queued() >= high_mark()) body_.pause(true);
  } else if (holds_request()) {
    body_.hold(std::move(body));
    if (!end && body_.held() >= high_mark()) body_.pause(true);
  } else {
    body.clear();  // The response was sent already.
  }
  if (log_.begun()) note_pinned();
  settle();
}

void Exchange::request_trailers(Fields&& trailers) {
  if (!admit_trailers(listener_, trailers) && !response_.ended()) {
    request_ended_ = true;
    note_broken({.rule = "a field name with an underscore"});
    return fail(HttpEnd::kBadRequest);
  }
  if (trailers.empty()) return request_body(Buffer(), true);
  request_ended_ = true;
  body_.mirror(trailers);
  if (body_.buffered()) {
    body_.hold_trailers(std::move(trailers));
    return continue_request();
  }
  if (upstream_) {
    deadlines_.waiting_since_ms = deadlines_.active_ms;
    body_.pass_trailers(*upstream_, std::move(trailers));
    note_sent();
    connection_->wake();
  } else if (holds_request()) {
    body_.hold_trailers(std::move(trailers));
  }
  settle();
}

bool Exchange::holds_request() const {
  return waiting_ || phase_waits_ || deadlines_.retry_ms != RequestDeadlines::kNever;
}

// Moves a buffered body on.
void Exchange::continue_request() {
  if (response_.begun() && !upstream_) {  // The response was sent already.
    body_.end_buffering();
    return settle();
  }
  if (upstream_ && body_.pass_buffered(*upstream_)) {
    deadlines_.waiting_since_ms = deadlines_.passed_ms = now_ms();
    if (request_ended_) note_sent();
    connection_->wake();
  }
  body_.store();
  if (body_.take_collected()) {
    phase_waits_ = false;
    return advance();
  }
  body_.follow_buffer();
  settle();
}

}  // namespace sluice
