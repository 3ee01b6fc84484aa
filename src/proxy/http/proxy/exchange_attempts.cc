// What an exchange does when an attempt fails, or takes long: it retries, hedges, or gives up.

#include <optional>
#include <utility>

#include "net/worker.h"
#include "proxy/http/message/message_rules.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

using config::RetryOn;

namespace {

// How much earlier than here an endpoint may notice the deadline that it was given.
constexpr uint64_t kDeadlineSkewMs = 20;

}  // namespace

bool Exchange::may_repeat() const {
  return is_idempotent(request_.method()) || !request_.protocol().empty();  // An upgrade is a GET.
}

// Whether the request is retried. If so, this counts as a retry.
bool Exchange::take_another(RetryOn why) {
  return !response_.begun() && body_.can_be_resent() && !tunnel_agreed_ &&
         take_retry(target_->route->retry, why, is_idempotent(request_.method()), now_ms());
}

bool Exchange::was_lost_unseen(ResetReason reason) const {
  return !response_.begun() && body_.can_be_resent() && is_lost_unseen(reason);
}

// The side at fault for a reset of the endpoint's stream. While the client still owes a part of the request, the
// endpoint may have given up on the client, so the fault cannot be known. Nor can it if our limits of bandwidth made
// the endpoint wait.
Fault Exchange::fault_of_reset(ResetReason reason) const {
  if (response_.ended() || tunnel_agreed_ || was_lost_unseen(reason)) return Fault::kNone;
  const ResetRule rule = reset_rule(Side::kUpstream, reason);
  const bool waited = awaits_body() || body_.has_waited() || response_.has_waited();
  return rule.end == HttpEnd::kUpstreamReset && waited ? Fault::kNone : rule.fault;
}

// Whether the endpoint cancelled a gRPC call at its deadline. It may notice the deadline before the timer here does:
// its clock is another one, and ours stands still during a turn of the loop.
bool Exchange::is_cancelled_at_deadline(ResetReason reason) const {
  return deadline_is_grpc_ && reason == ResetReason::kCancelled &&
         now_ms() + kDeadlineSkewMs >= deadlines_.whole_due_ms;
}

void Exchange::upstream_reset(ResetReason reason) {
  const bool expired = is_cancelled_at_deadline(reason);
  const bool unseen = was_lost_unseen(reason);
  const Fault fault = fault_of_reset(reason);
  const RetryOn why = reason == ResetReason::kRefused ? RetryOn::kRefused : RetryOn::kReset;
  const bool may_retry = !hedge_ && !expired && fault != Fault::kClient && (!response_.ended() || tunnel_agreed_);
  const bool retries = may_retry && (unseen ? take_unseen_retry(now_ms()) : take_another(why));
  if (fault == Fault::kEndpoint) {
    report_error(now_ms(), http_end_name(reset_rule(Side::kUpstream, reason).end));
  }
  leave_upstream();
  if (response_.ended() && !tunnel_agreed_) return settle();
  if (hedge_ || retries) trace_failure(http_end_name(reset_rule(Side::kUpstream, reason).end));
  if (hedge_) return use_hedge();
  if (retries && unseen) {
    prepare_unseen_retry();
    return resend();
  }
  if (retries) return retry();
  upstream_reason_ = reason;
  const HttpEnd end = expired ? HttpEnd::kDeadline : reset_rule(Side::kUpstream, reason).end;
  if (response_.begun() && client_) return cut_response(end);
  fail(end);
}

// Whether the client is not to see this response, because the request was resent or its hedge is still pending.
bool Exchange::retry_instead_of(const Head& head, bool end) {
  const std::optional<RetryOn> why = retry_reason(target_->route->retry, head, end, grpc_);
  if (!why || (!hedge_ && !take_another(*why))) return false;
  if (!end) upstream_->reset(ResetReason::kCancelled);
  leave_upstream();
  trace_failure({}, head.status);
  hedge_ ? use_hedge() : retry();
  return true;
}

void Exchange::response_timed_out() {
  connection_->suspect(deadlines_.waiting_since_ms);
  report_error(now_ms(), http_end_name(HttpEnd::kResponseTimeout));
  if (!hedge_ && !take_another(RetryOn::kTimeout)) return fail(HttpEnd::kResponseTimeout);
  upstream_->reset(ResetReason::kCancelled);
  leave_upstream();
  trace_failure(http_end_name(HttpEnd::kResponseTimeout));
  hedge_ ? use_hedge() : retry();
}

void Exchange::trace_failure(std::string_view reason, uint16_t status) {
  if (trace_) trace_->end_attempt({.endpoint = to_->endpoint_name(endpoint_), .status = status, .error = reason});
}

void Exchange::on_no_upstream(HttpEnd why) {
  waiting_ = false;
  if (trace_) trace_->drop_attempt();
  hedge_ ? use_hedge() : fail(why);
}

void Exchange::on_connect_failed() {
  trace_failure("connect_failed");
  if (hedge_) return use_hedge();
  if (!is_retried_on(target_->route->retry, RetryOn::kConnectFailure)) return fail(HttpEnd::kNoEndpoint);
  listener_.counters.retries.add();
  UpstreamHttpCounters& counters = to_->counters();
  const uint32_t attempts = attempts_;
  send_request();
  if (attempts_ > attempts) counters.reconnects.add();
}

// Retries as the policy specifies, after a backoff.
void Exchange::retry() {
  const uint64_t wait_ms = prepare_retry(target_->route->retry, http_worker().random());
  if (wait_ms == 0) return resend();
  deadlines_.retry_ms = now_ms() + wait_ms;
  watch();
}

void Exchange::resend() {
  deadlines_.retry_ms = RequestDeadlines::kNever;
  begin_resend();
  listener_.counters.retries.add();
  to_->counters().retries.add();
  body_.take_back();
  watch();
  send_request();
}

// ---- Hedges ----

// How long to wait for a response before the request is hedged; 0: it is not hedged.
config::Duration Exchange::hedge_after() const {
  if (!target_->route->retry || target_->route->retry->hedge_after.count() == 0) return {};
  if (!body_.passed_on() || !body_.can_be_resent()) return {};  // Not all of the body was kept.
  if (!may_hedge() || response_.begun() || tunnel_ || !is_idempotent(request_.method())) return {};
  return target_->route->retry->hedge_after;
}

void Exchange::hedge() { begin_hedge(*target_->route->retry, body_.can_be_copied(), pool(), now_ms()); }

uint64_t Exchange::send_hedge(HttpStream& stream) {
  note_hedge_sent();
  if (trace_) trace_->send_hedge(to_->endpoint_name(hedge_->endpoint()));
  body_.send_copy(stream, request_);
  return now_ms();
}

// The hedge wins, unless its response would be retried. The first endpoint may still do better then.
void Exchange::on_hedge_response(Head&& head, bool end) {
  if (retry_reason(target_->route->retry, head, end, grpc_)) return refuse_hedge(head.status, now_ms());
  use_hedge();
  on_head(*upstream_, std::move(head), end);
}

void Exchange::use_hedge() {
  if (trace_) trace_->use_hedge(to_->endpoint_name(endpoint_));
  const uint64_t sent_ms = switch_to_hedge();
  if (upstream_) {
    body_.note_held_sent();
    deadlines_.waiting_since_ms = deadlines_.passed_ms = sent_ms;
  } else {
    body_.take_back();
  }
  watch();
}

}  // namespace sluice
