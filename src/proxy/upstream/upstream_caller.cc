#include "proxy/upstream/upstream_caller.h"

#include <utility>

#include "proxy/upstream/http_upstream.h"
#include "proxy/upstream/upstream_connection.h"

namespace sluice {

bool UpstreamCaller::attempts_left() const { return connects_ < to_->config().connect_attempts; }

bool UpstreamCaller::may_use(const UpstreamConnection& connection) const {
  return !wants_fresh_ || connection.number() > newest_;
}

void UpstreamCaller::call() {
  waiting_ = true;
  to_->request(*this);
}

void UpstreamCaller::chose(uint32_t endpoint) {
  leave_endpoint();
  let_endpoint_go();
  to_->hold(endpoint);
  endpoint_ = endpoint;
  tried_.add(endpoint);
  ++attempts_;
  ++connects_;
  to_->state().endpoint(endpoint).active.fetch_add(1, std::memory_order_relaxed);
  endpoint_counted_ = true;
}

void UpstreamCaller::leave_endpoint() {
  if (!std::exchange(endpoint_counted_, false)) return;
  to_->state().endpoint(endpoint_).active.fetch_sub(1, std::memory_order_relaxed);
}

void UpstreamCaller::let_endpoint_go() {
  if (attempts_ > 0) to_->let_go(endpoint_);
}

void UpstreamCaller::take_upstream(UpstreamConnection& connection, HttpStream& stream) {
  waiting_ = false;
  newest_ = to_->newest();
  connection_ = &connection;
  upstream_ = &stream;
}

void UpstreamCaller::stop_waiting() {
  if (std::exchange(waiting_, false) && connection_) connection_->remove_waiting(*this);
}

void UpstreamCaller::leave_upstream() {
  if (!upstream_) return;
  std::exchange(upstream_, nullptr)->release();
  std::exchange(connection_, nullptr)->detach();
  leave_endpoint();
}

void UpstreamCaller::adopt(UpstreamCaller& other) {
  leave_endpoint();
  let_endpoint_go();
  endpoint_ = other.endpoint_;
  endpoint_counted_ = std::exchange(other.endpoint_counted_, false);
  attempts_ += std::exchange(other.attempts_, 0);  // With its hold on the endpoint.
  tried_.add(other.tried_);
  newest_ = other.newest_;
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
