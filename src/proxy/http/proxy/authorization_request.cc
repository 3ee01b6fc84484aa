#include "proxy/http/proxy/authorization_request.h"

#include <new>
#include <utility>

#include "net/worker.h"
#include "proxy/http/proxy/fault.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

AuthorizerCall* AuthorizationRequest::begin(HttpWorker& worker, HttpUpstream& to, Head&& request, uint64_t timeout_ms,
                                            Caller& caller) {
  static_assert(sizeof(AuthorizationRequest) <= ExchangeMemory::kBlockBytes);
  auto& made = *new (worker.exchange_memory().take()) AuthorizationRequest(worker, to, std::move(request), caller);
  worker.worker().timers().arm(made.timer_, worker.worker().now_ms() + timeout_ms);
  to.retry_budget().note_request(worker.worker().now_ms());
  if (made.complete_head()) {
    made.call();
  } else {
    made.give_up(Outcome::kFailed, "the request to it is too large");
  }
  return made.caller_ ? &made : nullptr;
}

AuthorizationRequest::AuthorizationRequest(HttpWorker& worker, HttpUpstream& to, Head&& request, Caller& caller)
    : worker_(worker),
      caller_(&caller),
      request_(std::move(request)),
      timer_([](void* self) { static_cast<AuthorizationRequest*>(self)->on_timer(); }, this) {
  to_ = &to;
}

bool AuthorizationRequest::complete_head() {
  ChunkPool& pool = worker_.worker().pool();
  const std::string_view scheme = to_->config().tls ? "https" : "http";
  return request_.set(pool, Head::Part::kScheme, scheme) &&
         (!request_.authority().empty() || request_.set(pool, Head::Part::kAuthority, to_->config().name));
}

void AuthorizationRequest::on_upstream(UpstreamConnection& connection, HttpStream& stream) {
  take_upstream(connection, stream);
  used_connection_ = connection.used();
  sent_ms_ = worker_.worker().now_ms();
  upstream_->send_head(request_, /*end=*/true);
  connection_->wake();
}

void AuthorizationRequest::on_no_upstream(HttpEnd why) {
  waiting_ = false;
  give_up(Outcome::kFailed, http_end_name(why));
}

void AuthorizationRequest::on_head(HttpStream&, Head&& head, bool end) {
  if (head.status < 200) return;
  const uint64_t now_ms = worker_.worker().now_ms();
  to_->state().report_response(endpoint_, head.status, now_ms);
  to_->latencies().response.add(now_ms - sent_ms_);
  if (head.status < 500) to_->retry_budget().note_response(now_ms);
  request_.clear();
  response_ = std::move(head);
  if (end) return finish(Outcome::kResponse);
  // The body of a 2xx response is read only so that the connection can be reused.
  if (response_.status / 100 == 2) notify(Outcome::kResponse, {});
}

void AuthorizationRequest::on_body(HttpStream&, Buffer&& body, bool end) {
  received_ += body.size();
  if (received_ > kMaxBodyBytes) {
    body.clear();
    return give_up(Outcome::kFailed, "its response is larger than 64 KiB");
  }
  caller_ ? body_.append(std::move(body)) : body.clear();
  if (end) finish(Outcome::kResponse);
}

// An idle connection that the endpoint has closed is no failure.
bool AuthorizationRequest::take_another(ResetReason reason) {
  const bool unseen = reason == ResetReason::kRefused ||
                      (reason == ResetReason::kConnectionLost && used_connection_ && !response_.status);
  return caller_ && unseen && attempts_left() && to_->retry_budget().take_unseen(worker_.worker().now_ms());
}

void AuthorizationRequest::on_reset(HttpStream&, ResetReason reason) {
  const bool again = take_another(reason);
  if (!again && caller_) {
    const HttpEnd end = reset_rule(Side::kUpstream, reason).end;
    to_->state().report_error(endpoint_, worker_.worker().now_ms(), http_end_name(end));
  }
  leave_upstream();
  if (!again) return finish(Outcome::kFailed, "it broke off");
  wants_fresh_ = reason == ResetReason::kConnectionLost;
  tried_ = TriedEndpoints();
  call();
}

void AuthorizationRequest::on_timer() {
  if (upstream_ && caller_) {
    connection_->suspect(sent_ms_);
    to_->state().report_error(endpoint_, worker_.worker().now_ms(), http_end_name(HttpEnd::kResponseTimeout));
  }
  give_up(Outcome::kTimeout, "no response in time");
}

void AuthorizationRequest::cancel() {
  caller_ = nullptr;
  give_up(Outcome::kFailed, {});
}

void AuthorizationRequest::give_up(Outcome outcome, std::string_view error) {
  stop_waiting();
  if (upstream_) upstream_->reset(ResetReason::kCancelled);
  finish(outcome, error);
}

void AuthorizationRequest::notify(Outcome outcome, std::string_view error) {
  if (Caller* const caller = std::exchange(caller_, nullptr)) {
    caller->on_authorizer(outcome, response_, body_, error);
  }
}

void AuthorizationRequest::finish(Outcome outcome, std::string_view error) {
  if (std::exchange(over_, true)) return;
  leave_upstream();
  timer_.cancel();
  // Its caller may still be at work, so it is destroyed at the end of the turn.
  worker_.worker().defer(
      [](void* self) {
        auto* const done = static_cast<AuthorizationRequest*>(self);
        HttpWorker& worker = done->worker_;
        done->~AuthorizationRequest();
        worker.exchange_memory().give(done);
      },
      this);
  notify(outcome, error);
}

}  // namespace sluice
