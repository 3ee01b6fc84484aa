#include "proxy/http/proxy/side_request.h"

#include "net/worker.h"
#include "proxy/http/proxy/fault.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

SideRequest::SideRequest(HttpWorker& worker, HttpUpstream& to, Head&& request, Caller& caller)
    : worker_(worker),
      request_(std::move(request)),
      caller_(&caller),
      timer_([](void* self) { static_cast<SideRequest*>(self)->on_timer(); }, this) {
  to_ = &to;
}

SideCall* SideRequest::start(uint64_t timeout_ms) {
  const uint64_t now_ms = worker_.worker().now_ms();
  worker_.worker().timers().arm(timer_, now_ms + timeout_ms);
  to_->retry_budget().note_request(now_ms);
  const std::string_view flaw = complete_head() ? find_flaw() : "the request to it is too large";
  flaw.empty() ? call() : give_up(Outcome::kFailed, flaw);
  return caller_ ? this : nullptr;
}

bool SideRequest::complete_head() {
  ChunkPool& pool = worker_.worker().pool();
  const std::string_view scheme = to_->config().tls ? "https" : "http";
  return request_.set(pool, Head::Part::kScheme, scheme) &&
         (!request_.authority().empty() || request_.set(pool, Head::Part::kAuthority, to_->config().name));
}

void SideRequest::on_upstream(UpstreamConnection& connection, HttpStream& stream) {
  take_upstream(connection, stream);
  used_connection_ = connection.used();
  sent_ms_ = worker_.worker().now_ms();
  send(stream);
  connection_->wake();
}

void SideRequest::on_no_upstream(HttpEnd why) {
  waiting_ = false;
  give_up(Outcome::kFailed, http_end_name(why));
}

void SideRequest::note_response(uint16_t status) {
  const uint64_t now_ms = worker_.worker().now_ms();
  report_response(status, now_ms);
  leave_place(status);
  to_->latencies().response.add(now_ms - sent_ms_);
  if (status < 500) to_->retry_budget().note_response(now_ms);
}

bool SideRequest::take_body(Buffer&& body) {
  received_ += body.size();
  if (received_ > kMaxBodyBytes) {
    body.clear();
    give_up(Outcome::kFailed, "its response is larger than 64 KiB");
    return false;
  }
  caller_ ? body_.append(std::move(body)) : body.clear();
  return true;
}

// An idle connection that the endpoint has closed is no failure.
bool SideRequest::take_another(ResetReason reason) {
  const bool unseen = reason == ResetReason::kRefused ||
                      (reason == ResetReason::kConnectionLost && used_connection_ && !response_.status);
  return caller_ && unseen && attempts_left() && to_->retry_budget().take_unseen(worker_.worker().now_ms());
}

void SideRequest::on_reset(HttpStream&, ResetReason reason) {
  const bool again = take_another(reason);
  if (!again && caller_) {
    const HttpEnd end = reset_rule(Side::kUpstream, reason).end;
    report_error(worker_.worker().now_ms(), http_end_name(end));
  }
  leave_upstream();
  if (!again) return finish(Outcome::kFailed, "it broke off");
  wants_fresh_ = reason == ResetReason::kConnectionLost;
  tried_ = TriedEndpoints();
  call();
}

void SideRequest::on_timer() {
  if (upstream_ && caller_) {
    connection_->suspect(sent_ms_);
    report_error(worker_.worker().now_ms(), http_end_name(HttpEnd::kResponseTimeout));
  }
  give_up(Outcome::kTimeout, "no response in time");
}

void SideRequest::cancel() {
  caller_ = nullptr;
  give_up(Outcome::kFailed, {});
}

void SideRequest::give_up(Outcome outcome, std::string_view error) {
  stop_waiting();
  if (upstream_) upstream_->reset(ResetReason::kCancelled);
  finish(outcome, error);
}

void SideRequest::notify(Outcome outcome, std::string_view error) {
  if (Caller* const caller = std::exchange(caller_, nullptr)) caller->on_side_call(outcome, response_, body_, error);
}

void SideRequest::finish(Outcome outcome, std::string_view error) {
  if (std::exchange(over_, true)) return;
  leave_upstream();
  timer_.cancel();
  worker_.end_with_turn(*this);
  notify(outcome, error);
}

}  // namespace sluice
