#include "proxy/http/proxy/upstream_request.h"

#include <utility>

#include "proxy/http/proxy/concurrency_limit.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

bool UpstreamRequest::attempts_left() const { return to_->attempts_left(*this); }

// Another attempt to connect keeps its place.
void UpstreamRequest::call(bool complete) {
  waiting_ = true;
  if (ConcurrencyLimit* const limit = to_->concurrency(); limit && place_ == 0) [[unlikely]] {
    const ConcurrencyLimit::Entry entry = limit->enter(*this, complete, to_->pending(), place_);
    if (entry == ConcurrencyLimit::Entry::kRefused) return on_no_upstream(HttpEnd::kConcurrencyLimit);
    if (entry == ConcurrencyLimit::Entry::kWaits) return;
  }
  to_->request(*this);
}

void UpstreamRequest::on_place() { to_->request(*this); }

void UpstreamRequest::chose(uint32_t endpoint) {
  uncount_endpoint();
  let_endpoint_go();
  to_->hold(endpoint);
  endpoint_ = endpoint;
  tried_.add(endpoint);
  ++attempts_;
  ++connects_;
  to_->state().endpoint(endpoint).active.fetch_add(1, std::memory_order_relaxed);
  endpoint_counted_ = true;
}

// The endpoint may be chosen again, but this counts as an attempt.
void UpstreamRequest::on_no_room() {
  tried_.remove(endpoint_);
  call();
}

void UpstreamRequest::uncount_endpoint() {
  if (!std::exchange(endpoint_counted_, false)) return;
  to_->state().endpoint(endpoint_).active.fetch_sub(1, std::memory_order_relaxed);
}

void UpstreamRequest::let_endpoint_go() {
  if (attempts_ > 0) to_->let_go(endpoint_);
}

void UpstreamRequest::take_upstream(UpstreamConnection& connection, HttpStream& stream) {
  waiting_ = false;
  newest_ = to_->newest();
  connection_ = &connection;
  upstream_ = &stream;
  outcome_counted_ = false;
  note_sent();
}

bool UpstreamRequest::wait_for_turn(bool alone) {
  waiting_ = !to_->services().forward_queue().admit(*this, alone);
  return waiting_;
}

void UpstreamRequest::stop_waiting() {
  if (!std::exchange(waiting_, false)) return;
  if (forward_list() != kNoList) to_->services().forward_queue().remove(*this);
  if (connection_) connection_->remove_waiting(*this);
  leave_place();
}

void UpstreamRequest::leave_upstream() {
  if (!upstream_) return;
  std::exchange(upstream_, nullptr)->release();
  std::exchange(connection_, nullptr)->detach();
  leave_endpoint();
}

void UpstreamRequest::note_passed(bool completely) {
  ConcurrencyLimit& limit = *to_->concurrency();
  completely ? limit.note_sent(place_) : limit.note_incomplete(place_);
}

void UpstreamRequest::give_place_back() { to_->concurrency()->leave(std::exchange(place_, 0)); }

void UpstreamRequest::leave_place_with(uint16_t status) {
  to_->concurrency()->note_response(std::exchange(place_, 0), status);
}

// What breaks off after the head was counted as what its status says.
void UpstreamRequest::count_outcome(bool succeeded) {
  if (!connection_ || std::exchange(outcome_counted_, true)) return;
  EndpointCounters& counters = connection_->pool().endpoint_counters(endpoint_);
  (succeeded ? counters.requests_succeeded : counters.requests_failed).add();
}

void UpstreamRequest::report_response(uint16_t status, uint64_t now_ms) {
  count_outcome(status < 500);
  to_->state().report_response(endpoint_, status, now_ms);
}

void UpstreamRequest::report_error(uint64_t now_ms, std::string_view why) {
  count_outcome(false);
  to_->state().report_error(endpoint_, now_ms, why);
  if (ConcurrencyLimit* const limit = to_->concurrency()) limit->note_failure();
}

void UpstreamRequest::report_timeout() {
  if (place_ != 0 && to_->concurrency()->is_sent(place_)) to_->concurrency()->note_failure();
}

void UpstreamRequest::adopt(UpstreamRequest& other) {
  leave_endpoint();
  let_endpoint_go();
  endpoint_ = other.endpoint_;
  endpoint_counted_ = std::exchange(other.endpoint_counted_, false);
  place_ = std::exchange(other.place_, 0);
  if (place_ != 0) to_->concurrency()->replace(place_, *this);
  attempts_ += std::exchange(other.attempts_, 0);  // This includes the hold on the endpoint.
  tried_.add(other.tried_);
  newest_ = other.newest_;
  outcome_counted_ = other.outcome_counted_;
  waiting_ = std::exchange(other.waiting_, false);
  upstream_ = std::exchange(other.upstream_, nullptr);
  connection_ = other.connection_;
  if (upstream_) {
    upstream_->hand_over(*this);
    other.connection_ = nullptr;
  } else if (connection_) {
    connection_->replace_waiting(other, *this);
  }
}

}  // namespace sluice
