#include "proxy/http/proxy/upstream_attempts.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "net/worker.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

namespace {

using config::RetryOn;

// The conditions for a retry if the route has no policy.
constexpr RetryOn kUnseen[] = {RetryOn::kConnectFailure, RetryOn::kRefused};

// Whether the endpoint may have begun to process the request. For gRPC, the service says whether a call may be retried,
// and an operator who names a status in `on` speaks for it.
bool may_be_processed(RetryOn why) {
  return why == RetryOn::kReset || why == RetryOn::kTimeout || why == RetryOn::k5xx || why == RetryOn::kGatewayError ||
         why == RetryOn::kStatusCode;
}

// As the gRPC documentation's statuscodes.md numbers them.
constexpr std::string_view kGrpcResourceExhausted = "8", kGrpcUnavailable = "14";

}  // namespace

// ---- Retries ----

bool UpstreamAttempts::is_retried_on(const Policy& policy, RetryOn why) {
  if (why == RetryOn::kStatusCode) return policy && !policy->retriable_status_codes.empty();
  if (!policy || policy->on.empty()) return std::find(std::begin(kUnseen), std::end(kUnseen), why) != std::end(kUnseen);
  return std::find(policy->on.begin(), policy->on.end(), why) != policy->on.end();
}

std::optional<RetryOn> UpstreamAttempts::retry_reason(const Policy& policy, const Head& head, bool end, bool grpc) {
  if (!policy) return std::nullopt;
  const std::vector<uint32_t>& codes = policy->retriable_status_codes;
  if (std::find(codes.begin(), codes.end(), head.status) != codes.end()) return RetryOn::kStatusCode;
  std::optional<RetryOn> why;
  if (head.status >= 500) {
    const bool is_gateway = head.status >= 502 && head.status <= 504;
    why = is_retried_on(policy, RetryOn::k5xx) || !is_gateway ? RetryOn::k5xx : RetryOn::kGatewayError;
  } else if (grpc && end) {
    const std::string_view status = head.fields.value("grpc-status");
    if (status == kGrpcUnavailable) why = RetryOn::kGrpcUnavailable;
    if (status == kGrpcResourceExhausted) why = RetryOn::kGrpcResourceExhausted;
  }
  return why && is_retried_on(policy, *why) ? why : std::nullopt;
}

bool UpstreamAttempts::take_retry(const Policy& policy, RetryOn why, bool idempotent, uint64_t now_ms) {
  if (!is_retried_on(policy, why)) return false;
  if (policy ? tries() >= policy->attempts : !attempts_left()) return false;
  if (may_be_processed(why) && !idempotent) return false;
  return note_budget(to_->retry_budget().take(now_ms));
}

bool UpstreamAttempts::take_unseen_retry(uint64_t now_ms) {
  return note_budget(to_->retry_budget().take_unseen(now_ms));
}

bool UpstreamAttempts::note_budget(bool within) {
  if (!within) to_->counters().retries_over_budget.add();
  return within;
}

void UpstreamAttempts::begin_attempt(UpstreamConnection& connection, HttpStream& stream) {
  take_upstream(connection, stream);
  ++sent_;
  used_connection_ = connection.used();
}

uint64_t UpstreamAttempts::prepare_retry(const Policy& policy, Random& random) {
  wants_fresh_ = false;
  if (tried_.count() >= to_->present()) tried_ = TriedEndpoints();
  if (!policy) return 0;
  connects_ = 0;
  const auto doubled = config::milliseconds(policy->backoff) << std::min<uint32_t>(tries() - 1, 20);
  return random.below(std::min<uint64_t>(doubled, config::milliseconds(policy->max_backoff)) + 1);
}

void UpstreamAttempts::prepare_unseen_retry() {
  ++lost_unseen_;
  wants_fresh_ = true;
  tried_ = TriedEndpoints();
}

// ---- Hedges ----

void UpstreamAttempts::begin_hedge(const config::Retry& policy, bool possible, ChunkPool& pool, uint64_t now_ms) {
  hedged_ = true;
  const uint32_t sent = tries() + (waiting_ ? 1 : 0);
  if (!possible || sent >= policy.attempts) return;
  if (!to_->retry_budget().has_room(now_ms)) return to_->counters().retries_over_budget.add();
  hedge_ = make_in_chunk<HedgedRequest>(pool, *this, *to_);
  hedge_->begin();
  if (!hedge_) return;  // No endpoint was found.
  tried_.add(hedge_->endpoint());
  (void)to_->retry_budget().take(now_ms);
}

void UpstreamAttempts::note_hedge_sent() {
  ++sent_;
  to_->counters().hedges.add();
}

void UpstreamAttempts::end_hedge() {
  if (!hedge_) return;
  attempts_ += hedge_->attempts();
  hedge_->end();
  retire_hedge();
}

void UpstreamAttempts::refuse_hedge(uint16_t status, uint64_t now_ms) {
  hedge_->note_refused(status, now_ms);
  to_->latencies().response.add(now_ms - hedge_->sent_ms());
  end_hedge();
}

uint64_t UpstreamAttempts::switch_to_hedge() {
  stop_waiting();
  leave_upstream();
  adopt(*hedge_);
  by_hedge_ = true;
  if (upstream_) used_connection_ = connection_->used();
  const uint64_t sent_ms = hedge_->sent_ms();
  retire_hedge();
  return sent_ms;
}

void UpstreamAttempts::retire_hedge() {
  to_->services().worker().defer(
      [](void* ended) { ChunkPointer<HedgedRequest>(static_cast<HedgedRequest*>(ended)).reset(); }, hedge_.release());
}

}  // namespace sluice
