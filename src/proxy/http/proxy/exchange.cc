#include "proxy/http/proxy/exchange.h"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "net/worker.h"
#include "pool/check.h"
#include "proxy/http/message/message_rules.h"
#include "proxy/http/proxy/body_buffer.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/http/proxy/hedged_request.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/mirrored_request.h"
#include "proxy/http/proxy/response_compression.h"
#include "proxy/http/proxy/upstream_connection.h"
#include "proxy/router/http_router.h"

namespace sluice {

namespace {

// What each stream may queue even if its connection has very many streams, as long as memory is not short.
constexpr size_t kStreamMarkMin = size_t{16} * 1024;

// All streams of a connection together may queue this multiple of config::Http::buffer_high.
constexpr size_t kConnectionMarks = 4;

}  // namespace

// ---- The beginning ----

Exchange& Exchange::begin(HttpSession& session, HttpStream& client) {
  return *new (session.worker().take_exchange_memory()) Exchange(session, client);
}

Exchange::Exchange(HttpSession& session, HttpStream& client)
    : RequestContext(session),
      client_(&client),
      timer_([](void* self) { static_cast<Exchange*>(self)->on_timer(); }, this),
      started_ms_(now_ms()),
      last_active_ms_(started_ms_),
      last_request_ms_(started_ms_),
      last_response_ms_(started_ms_) {
  listener_.counters.requests.add();
  if (listener_.log) started_us_ = log_time_us();
}

Exchange::~Exchange() { SLUICE_CHECK(over_); }

void Exchange::note_activity() { last_active_ms_ = now_ms(); }

size_t Exchange::high_mark() const {
  const size_t of_connection = config().buffer_high.bytes * kConnectionMarks / (session_ ? session_->streams() : 1);
  return worker_.worker().share(std::min<size_t>(config().buffer_high.bytes, std::max(of_connection, kStreamMarkMin)));
}

// ---- Stream events ----

void Exchange::on_head(HttpStream& stream, Head&& head, bool end) {
  note_activity();
  if (&stream != client_) return take_response(std::move(head), end);
  request_ = std::move(head);
  take_request(end);
}

void Exchange::on_body(HttpStream& stream, Buffer&& body, bool end) {
  note_activity();
  &stream == client_ ? request_body(std::move(body), end) : response_body(std::move(body), end);
}

void Exchange::on_trailers(HttpStream& stream, Fields&& trailers) {
  note_activity();
  if (&stream == client_) return request_trailers(std::move(trailers));
  response_trailers(std::move(trailers));
}

void Exchange::on_reset(HttpStream& stream, ResetReason reason) {
  &stream == client_ ? client_reset(reason) : upstream_reset(reason);
}

void Exchange::on_drained(HttpStream& stream) {
  note_activity();
  if (&stream == client_) {
    last_response_ms_ = last_active_ms_;
    session_->note_progress();
    continue_compressing();
    resume_response();
  } else {
    last_passed_ms_ = last_active_ms_;
    if (waiting_request_) return continue_request();
    if (request_paused_ && client_ && upstream_->queued() <= high_mark() / 2) {
      last_request_ms_ = last_active_ms_;
      resume_request();
    }
  }
  settle();
}

// ---- The request ----

void Exchange::take_request(bool end) {
  request_ended_ = end;
  grpc_ = is_grpc(request_);
  watch();
  if (listener_.identifies && !find_identity()) return fail(HttpEnd::kBadRequest);
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
    if (!listener_.http1.allow_underscores && has_underscore(request_.fields)) return fail(HttpEnd::kBadRequest);
    if (!take_expectations()) {
      end_ = HttpEnd::kBadRequest;
      return respond_error(417, "the expectation is not supported");
    }
  }
  if (!connect && !make_canonical()) return fail(HttpEnd::kBadPath);
  find_route();
  advance();
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
  if (run_phases()) return send_request();
  if (collecting_) continue_request();
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
      waiting_since_ms_ = now_ms();  // Body that arrives from now on waits.
      break;
    case PhaseResult::Kind::kFail:
      fail(result.end);
      break;
    case PhaseResult::Kind::kRespond:
      respond(result.status, result.content_type, result.body, result.location);
      break;
  }
  return false;
}

void Exchange::resume(const PhaseResult& result) {
  if (!std::exchange(phase_waits_, false)) return;
  note_activity();
  if (result.kind != PhaseResult::Kind::kContinue || !target_->forwards()) {  // The body is dropped.
    held_.clear();
    if (std::exchange(request_paused_, false)) client_->set_reading(true);
  }
  if (obey(result)) advance();
}

// Chooses the upstream, and does what every forwarded request is subject to. Returns false if it is not forwarded.
bool Exchange::begin_forwarding() {
  if (!count_hop()) return false;
  to_ = &worker_.upstream(target_->choose(worker_.random()));
  uint64_t declared_bytes = 0;  // 0 without a Content-Length. The codecs have checked that it is a number.
  if (!absl::SimpleAtoi(request_.fields.value("content-length"), &declared_bytes)) declared_bytes = 0;
  if (is_body_too_large(std::max(declared_bytes, request_bytes_))) {
    fail(HttpEnd::kBodyTooLarge);
    return false;
  }
  find_deadline();
  if (add_origin_fields()) return true;
  fail(HttpEnd::kBadRequest);
  return false;
}

void Exchange::mirror(uint32_t upstream) {
  const bool body_ends = request_ended_ && held_trailers_.empty();
  MirroredRequest::begin(worker_, worker_.upstream(upstream), request_, body_ends && held_.empty(), mirror_);
  if (mirror_ && !held_.empty()) mirror_->send_body(held_.clone(), body_ends);
  if (mirror_ && !held_trailers_.empty()) mirror_->send_trailers(held_trailers_);
}

bool Exchange::is_body_too_large(uint64_t bytes) const {
  const uint64_t limit = route_->max_body.value_or(config().max_body).bytes;
  return limit > 0 && bytes > limit && !tunnel_;
}

void Exchange::send_request() {
  waiting_since_ms_ = now_ms();
  call();
}

void Exchange::on_upstream(UpstreamConnection& connection, HttpStream& stream) {
  take_upstream(connection, stream);
  ++sent_;
  used_connection_ = connection.used();
  if (!request_.protocol().empty() && !connection.accepts_protocols()) return fail(HttpEnd::kUpstreamRefused);
  waiting_since_ms_ = last_passed_ms_ = now_ms();
  if (!add_content_length()) return fail(HttpEnd::kBadRequest);
  if (waiting_request_) {
    upstream_->send_head(request_, false);
    return continue_request();
  }
  const bool whole = request_ended_ && !tunnel_;
  const bool end = whole && held_.empty() && held_trailers_.empty();
  upstream_->send_head(request_, end);
  if (end) return;
  const bool body_ends = request_ended_ && held_trailers_.empty();
  if (!held_.empty() || body_ends) {
    pass_body(std::move(held_), body_ends);
  }
  if (!held_trailers_.empty()) pass_trailers(std::exchange(held_trailers_, {}));
  if (request_paused_) resume_request();
}

void Exchange::on_no_upstream(HttpEnd why) {
  waiting_ = false;
  hedge_ ? switch_to_hedge() : fail(why);
}

void Exchange::request_body(Buffer&& body, bool end) {
  request_bytes_ += body.size();
  last_request_ms_ = last_active_ms_;
  request_ended_ = request_ended_ || end;
  if (to_ && !response_begun_ && is_body_too_large(request_bytes_)) {
    body.clear();
    return fail(HttpEnd::kBodyTooLarge);
  }
  if (mirror_) mirror_->send_body(body.clone(), end);
  if (waiting_request_) {
    waiting_request_->add(std::move(body));
    return continue_request();
  }
  if (upstream_) {
    waiting_since_ms_ = last_active_ms_;
    if (upstream_->queued() == 0) last_passed_ms_ = last_active_ms_;
    pass_body(std::move(body), end);
    connection_->wake();
    if (!end && upstream_->queued() >= high_mark()) pause_request();
  } else if (holds_request()) {
    held_.append(std::move(body));
    if (!end && held_.size() >= high_mark()) pause_request();
  } else {
    body.clear();  // The response was sent already.
  }
  settle();
}

void Exchange::pause_request() {
  request_paused_ = true;
  client_->set_reading(false);
}

void Exchange::resume_request() {
  request_paused_ = false;
  client_->set_reading(true);
  session_->wake();
}

void Exchange::request_trailers(Fields&& trailers) {
  if (!listener_.http1.allow_underscores && !response_ended_ && has_underscore(trailers)) {
    request_ended_ = true;
    return fail(HttpEnd::kBadRequest);
  }
  drop_reserved(trailers);
  if (trailers.empty()) return request_body(Buffer(), true);
  request_ended_ = true;
  if (mirror_) mirror_->send_trailers(trailers);
  if (waiting_request_) {
    held_trailers_ = std::move(trailers);
    return continue_request();
  }
  if (upstream_) {
    waiting_since_ms_ = last_active_ms_;
    pass_trailers(std::move(trailers));
    connection_->wake();
  } else if (holds_request()) {
    held_trailers_ = std::move(trailers);
  }
  settle();
}

// ---- The response ----

void Exchange::take_response(Head&& head, bool end) {
  if (head.status < 200 && head.status != 101) {
    client_->send_head(head, false);
    return session_->wake();
  }
  to_->state().report_response(endpoint_, head.status, now_ms());
  if (head.status < 500) to_->retry_budget().note_response(now_ms());
  if (retry_instead_of(head, end)) return;
  end_hedge();
  if (by_hedge_) to_->counters().hedges_won.add();
  response_begun_ = true;
  kept_.clear();
  status_ = head.status;
  if (listener_.log) response_head_us_ = std::max<uint64_t>(log_time_us() - started_us_, 1);
  if (tunnel_) {
    // In HTTP/2, every 2xx accepts the tunnel, so this response cannot be passed to an HTTP/2 client.
    if (head.ignores_upgrade && session_->http2()) {
      response_begun_ = false;
      return fail(HttpEnd::kUpstreamRefused);
    }
    tunnel_agreed_ = head.status / 100 == 2 && !head.ignores_upgrade;
    if (tunnel_agreed_) {
      if (!session_->http2() && !request_.protocol().empty()) status_ = 101;  // The status that the client receives.
      listener_.counters.tunnels.add();
      watch();  // A tunnel has its own idle timeout.
    }
    request_ended_ = request_ended_ || !tunnel_agreed_;
  }
  last_response_ms_ = last_active_ms_;
  response_ended_ = end;
  const bool http2 = to_->config().protocol == config::Protocol::kHttp2;
  if (!add_date(head) || !add_via(pool(), http2 ? listener_.via_http2 : listener_.via_http1, head) ||
      (to_->config().sticky && !to_->keep_client(facts(), endpoint_, head.fields)) || !change_response(head, end) ||
      !run_response_phases(PhaseStep::kResponseBody, head, end)) {
    return fail(HttpEnd::kUpstreamMalformed);
  }
  if (!listener_.log) request_.clear();
  client_->send_head(head, end);
  session_->wake();
  settle();
}

void Exchange::response_body(Buffer&& body, bool end) {
  response_ended_ = end;
  if (must_wait(body)) {
    keep_for_client(std::move(body));
  } else {
    pass_response(std::move(body), end);
    if (!end) pause_response();
  }
  settle();
}

void Exchange::response_trailers(Fields&& trailers) {
  response_ended_ = true;
  if (waiting_response_) {
    waiting_response_->put_trailers(std::move(trailers));
    continue_response();
  } else {
    pass_response_trailers(std::move(trailers));
  }
  settle();
}

void Exchange::pass_response(Buffer&& body, bool end) {
  if (compression_) return compress(std::move(body), end);
  response_bytes_ += body.size();
  if (client_->queued() == 0) last_response_ms_ = now_ms();
  client_->send_body(std::move(body), end);
  session_->wake();
}

void Exchange::pass_response_trailers(Fields&& trailers) {
  if (compression_) {
    compression_->trailers = std::move(trailers);
    return compress(Buffer(), true);
  }
  client_->send_trailers(trailers);
  session_->wake();
}

// Bytes that wait for the client, compressed or not.
size_t Exchange::response_queued() const {
  return client_->queued() + (compression_ ? compression_->waiting.size() : 0);
}

void Exchange::pause_response() {
  if (keeps_response() || response_queued() < high_mark()) return;
  response_paused_ = true;
  upstream_->set_reading(false);
}

void Exchange::resume_response() {
  if (waiting_response_) return continue_response();
  if (!response_paused_ || !upstream_ || response_queued() > high_mark() / 2) return;
  response_paused_ = false;
  upstream_->set_reading(true);
  connection_->wake();
}

// ---- The end ----

void Exchange::client_reset(ResetReason reason) {
  if (!response_ended_ || !client_->sent_all()) {
    if (!response_cut_) end_ = session_->shutting_down() ? HttpEnd::kShutdown : reset_rule(Side::kClient, reason).end;
  }
  stop_waiting();
  end_hedge();
  if (upstream_) upstream_->reset(ResetReason::kCancelled);
  leave_upstream();
  release_client();
  retire();
}

void Exchange::release_client() {
  finish();
  std::exchange(client_, nullptr)->release();
  std::exchange(session_, nullptr)->wake();
}

// Releases the streams that have ended, and retires the exchange with the last of them.
void Exchange::settle() {
  const bool tunnel = tunnel_agreed_;
  if (upstream_ && response_ended_ && (!tunnel || (request_ended_ && upstream_->sent_all()))) leave_upstream();
  if (client_ && response_cut_) {
    if (holds_response()) return;
    client_->reset(upstream_reason_);  // The truncated response must not look complete.
    release_client();
  } else if (client_ && response_ended_ && client_->sent_all() && (!tunnel || (request_ended_ && !upstream_))) {
    release_client();
  }
  if (!client_ && !upstream_) retire();
}

// The end: nothing calls the exchange from now on. Those who called it may still be at work, so it is destroyed at the
// end of the turn.
void Exchange::retire() {
  if (std::exchange(over_, true)) return;
  SLUICE_CHECK(!client_ && !upstream_ && !waiting_ && !hedge_ && !mirror_);
  timer_.cancel();
  phase_waits_ = false;
  if (compression_) compression_->work.cancel();
  request_.clear();
  held_.clear();
  kept_.clear();
  worker_.worker().defer(
      [](void* self) {
        auto* const exchange = static_cast<Exchange*>(self);
        HttpWorker& worker = exchange->worker_;
        exchange->~Exchange();
        worker.give_exchange_memory(exchange);
      },
      this);
}

void Exchange::finish() {
  if (mirror_) mirror_->cut();
  HttpCounters& counters = listener_.counters;
  counters.ended[static_cast<size_t>(end_)].add();
  if (status_ >= 100) counters.statuses[status_ / 100].add();
  counters.request_bytes.add(request_bytes_);
  counters.response_bytes.add(response_bytes_);
  if (listener_.log) log();
}

}  // namespace sluice
