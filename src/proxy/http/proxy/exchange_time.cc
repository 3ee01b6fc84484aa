// The timeouts of an exchange. One timer covers everything that it waits for.

#include <algorithm>
#include <optional>

#include "net/worker.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

namespace {

// How often a stuck exchange checks whether it should be shed: while memory is short, and otherwise.
constexpr uint64_t kShedLoadRetryMs = 100;
constexpr uint64_t kStuckRetryMs = 1000;

using config::milliseconds;

}  // namespace

void Exchange::find_deadline() {
  const uint64_t request_ms = milliseconds(route_->request_timeout.value_or(config().request_timeout));
  if (!tunnel_ && request_ms > 0) deadline_ms_ = started_ms_ + request_ms;
  if (!grpc_) return;
  const std::optional<uint64_t> timeout_ms = parse_grpc_timeout(request_.fields.value("grpc-timeout"));
  if (!timeout_ms || started_ms_ + *timeout_ms >= deadline_ms_) return;
  deadline_ms_ = started_ms_ + *timeout_ms;
  deadline_is_grpc_ = true;
}

config::Duration Exchange::idle_timeout() const {
  if (tunnel_agreed_) return config().tunnel_timeout;
  return route_ ? route_->stream_idle_timeout.value_or(config().stream_idle_timeout) : config().stream_idle_timeout;
}

config::Duration Exchange::response_timeout() const {
  const config::Duration whole = route_->response_timeout.value_or(to_->config().response_timeout);
  if (!route_->retry || route_->retry->try_timeout.count() == 0) return whole;
  return std::min(whole, route_->retry->try_timeout);
}

// Activity only records the time. The timer compares it when it fires, and is armed again if there was some.
void Exchange::on_timer() {
  const uint64_t now = now_ms();
  if (now >= deadline_ms_) return fail(deadline_is_grpc_ ? HttpEnd::kDeadline : HttpEnd::kRequestTimeout);
  const uint64_t idle_ms = milliseconds(idle_timeout());
  if (idle_ms > 0 && now >= last_active_ms_ + idle_ms) return fail(HttpEnd::kIdleTimeout);
  if (awaits_response()) {
    const uint64_t response_ms = milliseconds(response_timeout());
    if (response_ms > 0 && now >= waiting_since_ms_ + response_ms) return response_timed_out();
  }
  if (awaits_body()) {
    const uint64_t body_ms = milliseconds(config().body_timeout);
    if (body_ms > 0 && now >= last_request_ms_ + body_ms) return fail(HttpEnd::kBodyTimeout);
  }
  const uint64_t stuck_ms = milliseconds(config().stuck_timeout);
  if (stuck_ms > 0 && session_ && now >= stuck_since_ms() + stuck_ms && session_->should_shed_load()) {
    return fail(HttpEnd::kStuck);
  }
  // While the socket is full, the session watches for progress.
  if (awaits_client()) {
    const uint64_t send_ms = milliseconds(config().send_timeout);
    const uint64_t since = client_progress_ms();
    if (send_ms > 0 && now >= since + send_ms) return fail(HttpEnd::kSendTimeout);
  }
  if (awaits_hedge()) {
    const uint64_t hedge_ms = milliseconds(hedge_after());
    if (hedge_ms > 0 && now >= waiting_since_ms_ + hedge_ms) hedge();
  }
  watch();
  if (retry_at_ms_ != 0 && now >= retry_at_ms_) resend();
}

bool Exchange::awaits_response() const { return upstream_ && request_ended_ && !response_begun_; }
bool Exchange::awaits_body() const {
  return client_ && !request_ended_ && !request_paused_ && !tunnel_ && !response_ended_;
}
bool Exchange::awaits_client() const { return client_ && client_->queued() > 0 && !session_->has_queued(); }

// Progress of other streams does not count if the client withholds the window of this stream.
uint64_t Exchange::client_progress_ms() const {
  return client_->blocked() ? last_response_ms_ : std::max(last_response_ms_, session_->last_progress_ms());
}

// The time since which bytes have waited here without progress; the current time if none wait. The arrival of more
// bytes is no progress, nor is progress of other streams if the client withholds the window of this one.
uint64_t Exchange::stuck_since_ms() const {
  uint64_t since = now_ms();
  if (client_ && client_->queued() > 0) {
    since = client_progress_ms();
  }
  if (!held_.empty()) since = std::min(since, waiting_since_ms_);
  if (upstream_ && upstream_->queued() > 0) since = std::min(since, last_passed_ms_);
  return since;
}

// Arms the timer for the earliest timeout that may expire.
void Exchange::watch() {
  const uint64_t now = now_ms();
  uint64_t due = retry_at_ms_ != 0 ? std::min(deadline_ms_, retry_at_ms_) : deadline_ms_;
  const auto consider = [&](uint64_t since, config::Duration limit) {
    if (limit.count() > 0) due = std::min(due, std::max(since + milliseconds(limit), now + 1));
  };
  consider(last_active_ms_, idle_timeout());
  if (to_ && !response_begun_) consider(awaits_response() ? waiting_since_ms_ : now, response_timeout());
  if (to_) consider(awaits_hedge() ? waiting_since_ms_ : now, hedge_after());
  if (!request_ended_ && !tunnel_) consider(awaits_body() ? last_request_ms_ : now, config().body_timeout);
  if (!tunnel_agreed_ || awaits_client()) {
    consider(awaits_client() ? client_progress_ms() : now, config().send_timeout);
  }
  if (const uint64_t stuck_ms = milliseconds(config().stuck_timeout); stuck_ms > 0) {
    const uint64_t retry_ms = worker_.worker().short_of_memory() ? kShedLoadRetryMs : kStuckRetryMs;
    due = std::min(due, std::max(stuck_since_ms() + stuck_ms, now + retry_ms));
  }
  if (due != UINT64_MAX) worker_.worker().timers().arm(timer_, due);
}

}  // namespace sluice
