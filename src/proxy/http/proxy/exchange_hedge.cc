// Hedging: sends a slow request to a second endpoint too, and uses the response that arrives first.

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

// How long to wait for a response before the request is hedged; 0: it is not hedged.
config::Duration Exchange::hedge_after() const {
  if (!route_->retry || route_->retry->hedge_after.count() == 0) return {};
  if (waiting_request_ && !request_passed_) return {};  // Not all of the body was kept.
  if (hedged_ || response_begun_ || tunnel_ || body_passed_ || !is_idempotent(request_.method())) return {};
  return route_->retry->hedge_after;
}

// Whether a hedge may be due: the whole request is here, and it was sent or waits for a connection.
bool Exchange::awaits_hedge() const { return request_ended_ && (upstream_ || waiting_); }

// Called once for each attempt, even if there is no other endpoint at the moment.
void Exchange::hedge() {
  hedged_ = true;
  const uint32_t sent = tries() + (waiting_ ? 1 : 0);
  if (sent >= route_->retry->attempts || kept_.size() + held_.size() > kMaxKeptBytes) return;
  if (!to_->retry_budget().has_room(now_ms())) return to_->counters().retries_over_budget.add();
  hedge_ = make_in_chunk<HedgedRequest>(pool(), *this, *to_);
  hedge_->begin();
  if (!hedge_) return;  // No endpoint was found.
  tried_.add(hedge_->endpoint());
  (void)to_->retry_budget().take(now_ms());
}

// Sends the hedge everything that was, or will be, sent to the first endpoint.
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

// The hedge wins, unless its response would be retried. The first endpoint may still do better then.
void Exchange::on_hedge_response(Head&& head, bool end) {
  if (retry_reason(head, end)) {
    to_->state().report_response(hedge_->endpoint(), head.status, now_ms());
    return end_hedge();
  }
  switch_to_hedge();
  on_head(*upstream_, std::move(head), end);
}

void Exchange::end_hedge() {
  if (!hedge_) return;
  attempts_ += hedge_->attempts();
  hedge_->end();
  retire(std::move(hedge_));
}

// It may be at work, so it is destroyed at the end of the turn.
void Exchange::retire(ChunkPointer<HedgedRequest>&& hedge) {
  worker_.worker().defer([](void* ended) { ChunkPointer<HedgedRequest>(static_cast<HedgedRequest*>(ended)).reset(); },
                         hedge.release());
}

// Continues as if the first endpoint had never been used.
void Exchange::switch_to_hedge() {
  stop_waiting();
  leave_upstream();
  HedgedRequest* const hedge = hedge_.get();
  adopt(*hedge);
  retire(std::move(hedge_));
  by_hedge_ = true;
  if (!upstream_) {
    take_body_back();
  } else {
    kept_.append(std::move(held_));
    waiting_since_ms_ = last_passed_ms_ = hedge->sent_ms();
    used_connection_ = connection_->used();
  }
  watch();
}

}  // namespace sluice
