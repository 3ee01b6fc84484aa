// Retries: when and how often a request is resent, and how much of its body is kept for that.

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "net/worker.h"
#include "proxy/http/message/message_rules.h"
#include "proxy/http/proxy/body_buffer.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/hedged_request.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/response_compression.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

namespace {

using config::RetryOn;

// The conditions for a retry if the route has no policy.
constexpr RetryOn kUnseen[] = {RetryOn::kConnectFailure, RetryOn::kRefused};

// Whether the endpoint may have begun to process the request. For gRPC, the service says whether a call may be retried,
// and an operator who names a status in `on` speaks for it.
bool may_be_processed(RetryOn why) {
  return why == RetryOn::kReset || why == RetryOn::kTimeout || why == RetryOn::k5xx || why == RetryOn::kGatewayError;
}

// As the gRPC documentation's statuscodes.md numbers them.
constexpr std::string_view kGrpcResourceExhausted = "8", kGrpcUnavailable = "14";

}  // namespace

bool Exchange::is_retried_on(RetryOn why) const {
  const std::optional<config::Retry>& policy = route_->retry;
  if (!policy || policy->on.empty()) return std::find(std::begin(kUnseen), std::end(kUnseen), why) != std::end(kUnseen);
  return std::find(policy->on.begin(), policy->on.end(), why) != policy->on.end();
}

// Whether the request is retried. If so, this counts as a retry.
bool Exchange::take_retry(RetryOn why) {
  if (response_begun_ || body_passed_ || tunnel_agreed_ || !is_retried_on(why)) return false;
  if (route_->retry ? tries() >= route_->retry->attempts : !attempts_left()) return false;
  if (may_be_processed(why) && !is_idempotent(request_.method())) return false;
  return note_budget(to_->retry_budget().take(now_ms()));
}

bool Exchange::note_budget(bool within) {
  if (!within) to_->counters().retries_over_budget.add();
  return within;
}

bool Exchange::may_repeat() const {
  return is_idempotent(request_.method()) || !request_.protocol().empty();  // An upgrade is a GET.
}

// Whether the endpoint closed an idle connection and perhaps never saw the request. Such an attempt does not count.
bool Exchange::is_lost_unseen(ResetReason reason) const {
  return reason == ResetReason::kConnectionLost && used_connection_ && !response_begun_ && !body_passed_ &&
         attempts_left() && may_repeat();
}

// The side at fault for a reset of the endpoint's stream. While the client still owes a part of the request, the
// endpoint may have given up on the client, so the fault cannot be known.
Fault Exchange::fault_of_reset(ResetReason reason) const {
  if (response_ended_ || tunnel_agreed_ || is_lost_unseen(reason)) return Fault::kNone;
  const ResetRule rule = reset_rule(Side::kUpstream, reason);
  return rule.end == HttpEnd::kUpstreamReset && awaits_body() ? Fault::kNone : rule.fault;
}

void Exchange::upstream_reset(ResetReason reason) {
  const bool unseen = is_lost_unseen(reason);
  const Fault fault = fault_of_reset(reason);
  const RetryOn why = reason == ResetReason::kRefused ? RetryOn::kRefused : RetryOn::kReset;
  const bool may_retry = !hedge_ && fault != Fault::kClient && (!response_ended_ || tunnel_agreed_);
  const bool retries = may_retry && (unseen ? note_budget(to_->retry_budget().take_unseen(now_ms())) : take_retry(why));
  if (fault == Fault::kEndpoint) to_->state().report_error(endpoint_, now_ms());
  leave_upstream();
  if (response_ended_ && !tunnel_agreed_) return settle();
  if (hedge_) return switch_to_hedge();
  if (retries && unseen) {
    ++lost_unseen_;
    wants_fresh_ = true;
    tried_ = TriedEndpoints();
    return resend();
  }
  if (retries) return retry();
  upstream_reason_ = reason;
  const HttpEnd end = reset_rule(Side::kUpstream, reason).end;
  response_begun_&& client_ ? cut_response(end) : fail(end);
}

// Ends a response that will not be complete. The part that arrived goes to the client first (RFC 9112 section 8), for
// at most send_timeout.
void Exchange::cut_response(HttpEnd why) {
  end_ = why;
  response_cut_ = request_ended_ = true;  // The rest of the request is dropped.
  leave_endpoint();
  if (waiting_response_) continue_response();
  continue_compressing();
  watch();
  session_->wake();
  settle();
}

// Whether a part of the response would be lost by a reset of the client's stream now. An HTTP/1.1 connection sends all
// output that it has.
bool Exchange::holds_response() const {
  return (waiting_response_ && !waiting_response_->empty()) ||
         (compression_ && (!compression_->waiting.empty() || compression_->unflushed)) ||
         (session_->http2() && client_->queued() > 0);
}

// The reason to retry instead of passing this response on, if any.
std::optional<RetryOn> Exchange::retry_reason(const Head& head, bool end) const {
  if (!route_->retry) return std::nullopt;
  std::optional<RetryOn> why;
  if (head.status >= 500) {
    const bool is_gateway = head.status >= 502 && head.status <= 504;
    why = is_retried_on(RetryOn::k5xx) || !is_gateway ? RetryOn::k5xx : RetryOn::kGatewayError;
  } else if (grpc_ && end) {
    const std::string_view status = head.fields.value("grpc-status");
    if (status == kGrpcUnavailable) why = RetryOn::kGrpcUnavailable;
    if (status == kGrpcResourceExhausted) why = RetryOn::kGrpcResourceExhausted;
  }
  return why && is_retried_on(*why) ? why : std::nullopt;
}

// Whether the client is not to see this response, because the request was resent or its hedge is still pending.
bool Exchange::retry_instead_of(const Head& head, bool end) {
  const std::optional<RetryOn> why = retry_reason(head, end);
  if (!why || (!hedge_ && !take_retry(*why))) return false;
  if (!end) upstream_->reset(ResetReason::kCancelled);
  leave_upstream();
  hedge_ ? switch_to_hedge() : retry();
  return true;
}

// The response timeout has expired.
void Exchange::response_timed_out() {
  connection_->suspect(waiting_since_ms_);
  to_->state().report_error(endpoint_, now_ms());
  if (!hedge_ && !take_retry(RetryOn::kTimeout)) return fail(HttpEnd::kResponseTimeout);
  upstream_->reset(ResetReason::kCancelled);
  leave_upstream();
  hedge_ ? switch_to_hedge() : retry();
}

void Exchange::on_connect_failed() {
  if (hedge_) return switch_to_hedge();
  if (!is_retried_on(RetryOn::kConnectFailure)) return fail(HttpEnd::kNoEndpoint);
  listener_.counters.retries.add();
  send_request();
}

// Retries as the policy specifies: after a backoff, and preferably to another endpoint.
void Exchange::retry() {
  wants_fresh_ = false;
  if (tried_.count() >= to_->present()) tried_ = TriedEndpoints();
  if (!route_->retry) return resend();
  connects_ = 0;
  const config::Retry& policy = *route_->retry;
  const auto doubled = config::milliseconds(policy.backoff) << std::min<uint32_t>(tries() - 1, 20);
  const uint64_t most_ms = std::min<uint64_t>(doubled, config::milliseconds(policy.max_backoff));
  const uint64_t wait_ms = worker_.random().below(most_ms + 1);
  if (wait_ms == 0) return resend();
  retry_at_ms_ = now_ms() + wait_ms;
  watch();
}

// Makes the whole body ready to be resent.
void Exchange::take_body_back() {
  kept_.append(std::move(held_));
  if (waiting_request_) {
    waiting_request_->put_back(std::move(kept_));
    request_passed_ = false;
  } else {
    held_ = std::move(kept_);
  }
}

void Exchange::resend() {
  retry_at_ms_ = 0;
  hedged_ = by_hedge_ = false;
  listener_.counters.retries.add();
  to_->counters().retries.add();
  take_body_back();
  watch();
  send_request();
}

// Passes a piece of the body to the upstream. The pieces are kept for a retry as long as they are small or the request
// was buffered. While memory is short, none are kept.
void Exchange::pass_body(Buffer&& body, bool end) {
  const uint64_t most = waiting_request_ ? route_->buffer->requests.bytes : kMaxKeptBytes;
  const uint64_t room = worker_.worker().in_reserve() ? 0 : most;
  const bool may_repeat = route_->retry || waiting_request_;
  if (may_repeat && !body_passed_ && kept_.size() + body.size() <= room) {
    kept_.append(body.clone());
  } else {
    body_passed_ = true;
    kept_.clear();
  }
  upstream_->send_body(std::move(body), end);
}

void Exchange::pass_trailers(Fields&& trailers) {
  upstream_->send_trailers(trailers);
  if (!route_->retry || body_passed_) {
    body_passed_ = true;
  } else {
    held_trailers_ = std::move(trailers);
  }
}

}  // namespace sluice
