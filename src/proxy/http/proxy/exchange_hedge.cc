// Asking a second endpoint while the first is slow, and going on with whoever answers first.

#include <cstdint>
#include <optional>
#include <utility>

#include "net/worker.h"
#include "proxy/http/message/message_rules.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/hedged_request.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

// How long it may be unanswered before a second endpoint is asked; 0: there will be no second one.
config::Duration Exchange::hedge_after() const {
  if (!route_->retry || route_->retry->hedge_after.count() == 0) return {};
  if (waiting_request_ && !request_passed_) return {};  // Not all of it was kept.
  if (hedged_ || response_begun_ || tunnel_ || body_passed_ || !is_idempotent(request_.method())) return {};
  return route_->retry->hedge_after;
}

// All of it is here, and somebody is asked, or waits to be.
bool Exchange::awaits_hedge() const { return request_ended_ && (upstream_ || waiting_); }

// Once for each attempt, even if there is nobody else just now.
void Exchange::hedge() {
  hedged_ = true;
  const uint32_t sent = tries() + (waiting_ ? 1 : 0);
  if (sent >= route_->retry->attempts || kept_.size() + held_.size() > kMaxKeptBytes) return;
  if (!to_->retry_budget().has_room(now_ms())) return to_->counters().retries_over_budget.add();
  hedge_ = make_in_chunk<HedgedRequest>(worker_.worker().pool(), *this, *to_);
  hedge_->begin();
  if (!hedge_) return;  // There is nobody.
  tried_.add(hedge_->endpoint());
  (void)to_->retry_budget().take(now_ms());
}

// What went to the first endpoint, or waits to. Returns the time.
uint64_t Exchange::send_hedge(HttpStream& stream) {
  ++sent_;
  to_->counters().hedges.add();
  const bool body_ends = held_trailers_.empty();
  Buffer body = kept_.clone();
  body.append(held_.clone());
  stream.send_head(request_, body_ends && body.empty());
  if (!body.empty()) stream.send_body(std::move(body), body_ends);
  if (!body_ends) stream.send_trailers(held_trailers_);
  return now_ms();
}

// It wins, unless it is what would be asked for again, while the first endpoint may still do better.
void Exchange::hedge_answered(Head&& head, bool end) {
  if (retry_reason(head, end)) {
    to_->state().report_answer(hedge_->endpoint(), head.status, now_ms());
    return end_hedge();
  }
  go_on_with_hedge();
  on_head(*upstream_, std::move(head), end);
}

void Exchange::end_hedge() {
  if (!hedge_) return;
  attempts_ += hedge_->attempts();
  hedge_.reset();
}

// As if there had never been another one.
void Exchange::go_on_with_hedge() {
  stop_waiting();
  leave_upstream();
  const ChunkPointer<HedgedRequest> hedge = std::move(hedge_);
  adopt(*hedge);
  by_hedge_ = true;
  if (!upstream_) {
    take_body_back();
  } else {
    kept_.append(std::move(held_));
    asked_ms_ = last_passed_ms_ = hedge->sent_ms();
    used_connection_ = connection_->used();
  }
  watch();
}

}  // namespace sluice
