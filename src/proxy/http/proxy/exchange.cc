#include "proxy/http/proxy/exchange.h"

#include <new>
#include <utility>

#include "net/worker.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "sluice/internal/check.h"

namespace sluice {

// ---- The beginning ----

Exchange& Exchange::begin(HttpSession& session, HttpStream& client) {
  static_assert(sizeof(Exchange) <= ExchangeMemory::kBlockBytes);
  return *new (session.listener().http.exchange_memory().take()) Exchange(session, client);
}

Exchange::Exchange(HttpSession& session, HttpStream& client)
    : RequestContext(session, client,
                     [](void* self) { static_cast<Exchange*>(static_cast<RequestContext*>(self))->on_timer(); }),
      body_(*this),
      response_(*this),
      log_(*this) {
  listener_.counters.requests.add();
  place_ = static_cast<uint32_t>(listener_.exchanges.size());
  listener_.exchanges.push_back(this);
}

Exchange::~Exchange() {
  SLUICE_CHECK(over_);
  Exchange* const last = listener_.exchanges.back();
  listener_.exchanges[place_] = last;
  last->place_ = place_;
  listener_.exchanges.pop_back();
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
  if (&stream != client_) return response_body(std::move(body), end);
  body_.paced() ? body_.pass_at_turn(std::move(body), end) : request_body(std::move(body), end);
}

void Exchange::on_trailers(HttpStream& stream, Fields&& trailers) {
  note_activity();
  if (&stream != client_) return response_trailers(std::move(trailers));
  body_.paced() ? body_.pass_at_turn(std::move(trailers)) : request_trailers(std::move(trailers));
}

void Exchange::on_reset(HttpStream& stream, ResetReason reason) {
  &stream == client_ ? client_reset(reason) : upstream_reset(reason);
}

// A codec of HTTP/1.1 responds to it.
void Exchange::on_broken(HttpStream& stream, const BrokenMessage& message) {
  if (&stream != client_) return;
  if (message.status != 0) status_ = message.status;
  note_broken(message);
}

void Exchange::note_broken(BrokenMessage message) {
  broken_ = rule_index(message.rule);
  message.method = request_.method();
  message.scheme = scheme();
  message.authority = original_authority();
  message.path = original_path();
  session_->log_broken(message);
}

void Exchange::on_drained(HttpStream& stream) {
  note_activity();
  if (&stream == client_) {
    deadlines_.response_ms = deadlines_.active_ms;
    session_->note_progress();
    response_.resume();
    regulate_response();
  } else {
    deadlines_.passed_ms = deadlines_.active_ms;
    if (body_.buffered()) return continue_request();
    if (body_.paused() && client_ && upstream_->queued() <= high_mark() / 2) {
      deadlines_.request_ms = deadlines_.active_ms;
      body_.pause(false);
    }
  }
  settle();
}

void Exchange::on_request_moved() {
  if (!over_) continue_request();
}

void Exchange::on_response_moved() {
  regulate_response();
  settle();
}

// ---- The end ----

void Exchange::client_reset(ResetReason reason) {
  if ((!response_.ended() || !client_->sent_all()) && !response_.cut()) {
    end_ = session_->shutting_down()       ? HttpEnd::kShutdown
           : session_->closed_for_memory() ? HttpEnd::kOverload
                                           : reset_rule(Side::kClient, reason).end;
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

// Ends a response that will not be complete. The part that arrived goes to the client first (RFC 9112 section 8), for
// at most send_timeout.
void Exchange::cut_response(HttpEnd why) {
  end_ = why;
  request_ended_ = true;  // The rest of the request is dropped.
  leave_endpoint();
  response_.cut_off();
  watch();
  session_->wake();
  settle();
}

// Whether a part of the response would be lost by a reset of the client's stream now. An HTTP/1.1 connection sends all
// output that it has.
bool Exchange::holds_response() const { return response_.holds_data() || (session_->http2() && client_->queued() > 0); }

// Releases the streams that have ended, and retires the exchange with the last of them.
void Exchange::settle() {
  const bool tunnel = tunnel_agreed_;
  if (upstream_ && response_.ended() && (!tunnel || (request_ended_ && upstream_->sent_all()))) leave_upstream();
  if (client_ && response_.cut()) {
    if (holds_response()) return;
    client_->reset(upstream_reason_);  // The truncated response must not look complete.
    release_client();
  } else if (client_ && response_.ended() && client_->sent_all() && (!tunnel || (request_ended_ && !upstream_))) {
    release_client();
  }
  if (!client_ && !upstream_) retire();
}

// The end: nothing calls the exchange from now on.
void Exchange::retire() {
  if (over_) return;
  over_ = true;
  SLUICE_CHECK(!client_ && !upstream_ && !waiting_ && !hedge_);
  deadlines_.timer.cancel();
  stop_phase();
  response_.stop();
  request_.clear();
  body_.clear();
  http_worker().end_with_turn(*this);
}

RequestLatencies& Exchange::latencies() const {
  return target_ ? *listener_.latencies->by_route[target_->index] : *listener_.latencies->others;
}

// Call it where the head of the final response is passed to the client.
void Exchange::note_first_byte() { latencies().first_byte.add(now_ms() - deadlines_.started_ms); }

void Exchange::finish() {
  body_.cut_mirror();
  HttpCounters& counters = listener_.counters;
  counters.ended[static_cast<size_t>(end_)].add();
  if (status_ >= 100) counters.statuses[status_ / 100].add();
  counters.request_bytes.add(body_.bytes());
  counters.response_bytes.add(response_.bytes());
  // A tunnel lasts as long as its sides want; a request that moves has not ended.
  if (!tunnel_agreed_ && end_ != HttpEnd::kMoved) latencies().duration.add(now_ms() - deadlines_.started_ms);
  if (!listener_.log && !trace_) return;
  RequestOutcome outcome{.status = status_, .request_bytes = body_.bytes(), .response_bytes = response_.bytes()};
  if (to_) outcome.upstream = to_->config().name;
  if (attempts_ > 0) outcome.endpoint = to_->endpoint_name(endpoint_);
  outcome.attempts = attempts_;
  if (grpc_status_ != kNoGrpcStatus) outcome.grpc_status = static_cast<uint8_t>(grpc_status_);
  if (trace_) outcome.span_id = trace_->span_id();
  log_.write(*this, outcome);
  if (!trace_) return;
  const bool has_response = end_ == HttpEnd::kOk || response_.cut();
  trace_->end(outcome, {.endpoint = outcome.endpoint,
                        .status = has_response ? status_ : uint16_t{0},
                        .error = end_ == HttpEnd::kOk ? std::string_view() : http_end_name(end_)});
}

}  // namespace sluice
