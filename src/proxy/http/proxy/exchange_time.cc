// The timeouts of an exchange. One timer covers everything that it waits for.

#include <algorithm>
#include <optional>

#include "net/worker.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

namespace {

using config::milliseconds;
using Kind = RequestDeadlines::Kind;
constexpr uint64_t kNever = RequestDeadlines::kNever;

// How often a stuck exchange checks whether it should be shed: while memory is short, and otherwise.
constexpr uint64_t kShedLoadRetryMs = 100;
constexpr uint64_t kStuckRetryMs = 1000;

}  // namespace

void Exchange::find_deadline() {
  const uint64_t request_ms = milliseconds(target_->route->request_timeout.value_or(config().request_timeout));
  if (!tunnel_ && request_ms > 0) deadlines_.whole_due_ms = deadlines_.started_ms + request_ms;
  if (!grpc_) return;
  const std::optional<uint64_t> timeout_ms = parse_grpc_timeout(request_.fields.value("grpc-timeout"));
  if (!timeout_ms || deadlines_.started_ms + *timeout_ms >= deadlines_.whole_due_ms) return;
  deadlines_.whole_due_ms = deadlines_.started_ms + *timeout_ms;
  deadline_is_grpc_ = true;
}

// Calls `visit` with each deadline, in the order in which they count if several expire at once, until it returns false.
template <class Visit>
bool Exchange::visit_deadlines(const Visit& visit) const {
  const uint64_t now = now_ms();
  const RequestDeadlines& times = deadlines_;
  const auto at = [&](Kind kind, uint64_t due) { return visit(Deadline{kind, due, due}); };
  // `waits`: it is waited for; else that may begin at any time, without notice.
  const auto after = [&](Kind kind, bool waits, uint64_t since, config::Duration limit) {
    if (limit.count() == 0) return true;
    const uint64_t due = (waits ? since : now) + milliseconds(limit);
    return visit(Deadline{kind, waits ? due : kNever, std::max(due, now + 1)});
  };
  const auto response = [&] {
    return !to_ || response_.begun() ||
           after(Kind::kResponse, awaits_response(), times.waiting_since_ms, response_timeout());
  };
  // Once the response has begun, the two sides may wait for each other, as in a stream of gRPC.
  const auto body = [&] {
    return request_ended_ || tunnel_ || response_.begun() ||
           after(Kind::kBody, awaits_body(), times.request_ms, config().body_timeout);
  };
  const auto stuck = [&] {
    const uint64_t stuck_ms = milliseconds(config().stuck_timeout);
    if (stuck_ms == 0) return true;
    const uint64_t due = stuck_since_ms() + stuck_ms;
    const uint64_t retry_ms = loop_.short_of_memory() ? kShedLoadRetryMs : kStuckRetryMs;
    return visit(Deadline{Kind::kStuck, session_ ? due : kNever, std::max(due, now + retry_ms)});
  };
  // While the socket is full, the session watches for progress.
  const auto send = [&] {
    const bool waits = awaits_client();
    return (!waits && tunnel_agreed_) ||
           after(Kind::kSend, waits, waits ? client_progress_ms() : now, config().send_timeout);
  };
  const auto hedge = [&] { return !to_ || after(Kind::kHedge, awaits_hedge(), times.waiting_since_ms, hedge_after()); };
  return at(Kind::kWhole, times.whole_due_ms) &&
         after(Kind::kIdle, !held_ && !awaits_turn(), times.active_ms, idle_timeout()) && response() && body() &&
         stuck() && send() && hedge() && at(Kind::kRetry, times.retry_ms);
}

// Arms the timer for the earliest deadline that may expire.
void Exchange::watch() {
  uint64_t earliest = kNever;
  visit_deadlines([&](const Deadline& each) {
    earliest = std::min(earliest, each.look);
    return true;
  });
  if (earliest != kNever) loop_.timers().arm(deadlines_.timer, earliest);
}

void Exchange::on_timer() {
  const uint64_t now = now_ms();
  if (response_.begun() && session_) session_->stay();  // A deadline may end it.
  if (visit_deadlines([&](const Deadline& each) { return now < each.due || expire(each.kind); })) watch();
}

// A deadline has expired. Returns whether the exchange waits on.
bool Exchange::expire(Kind kind) {
  switch (kind) {
    case Kind::kWhole:
      fail(deadline_is_grpc_ ? HttpEnd::kDeadline : HttpEnd::kRequestTimeout);
      return false;
    case Kind::kIdle:
      fail(HttpEnd::kIdleTimeout);
      return false;
    case Kind::kResponse:
      response_timed_out();
      return false;
    case Kind::kBody:
      fail(HttpEnd::kBodyTimeout);
      return false;
    case Kind::kStuck:
      if (!session_->should_shed_load()) return true;
      fail(HttpEnd::kStuck);
      return false;
    case Kind::kSend:
      fail(HttpEnd::kSendTimeout);
      return false;
    case Kind::kHedge:
      hedge();
      return true;
    case Kind::kRetry:
      resend();
      return false;
  }
  return true;
}

config::Duration Exchange::idle_timeout() const {
  if (tunnel_agreed_) return config().tunnel_timeout;
  return target_ ? target_->route->stream_idle_timeout.value_or(config().stream_idle_timeout)
                 : config().stream_idle_timeout;
}

config::Duration Exchange::response_timeout() const {
  const config::Duration whole = target_->route->response_timeout.value_or(to_->config().response_timeout);
  if (!target_->route->retry || target_->route->retry->try_timeout.count() == 0) return whole;
  return std::min(whole, target_->route->retry->try_timeout);
}

bool Exchange::awaits_body() const {
  return client_ && !request_ended_ && body_.reads() && !tunnel_ && !response_.ended();
}

bool Exchange::awaits_client() const { return client_ && client_->queued() > 0 && !session_->has_queued(); }

// Progress of other streams does not count if the client withholds the window of this stream.
uint64_t Exchange::client_progress_ms() const {
  return client_->blocked() ? deadlines_.response_ms : std::max(deadlines_.response_ms, session_->last_progress_ms());
}

// The time since which bytes have waited here without progress; the current time if none wait. The arrival of more
// bytes is no progress, nor is progress of other streams if the client withholds the window of this one.
uint64_t Exchange::stuck_since_ms() const {
  uint64_t since = now_ms();
  if (client_ && client_->queued() > 0) since = client_progress_ms();
  if (body_.held() > 0) since = std::min(since, deadlines_.waiting_since_ms);
  if (upstream_ && upstream_->queued() > 0) since = std::min(since, deadlines_.passed_ms);
  return since;
}

}  // namespace sluice
