// A tunnel that moves to another process with the client's connection. The endpoint's connection is a tunnel of
// HTTP/1.1, which has no state but the bytes that wait. So there the tunnel continues without HTTP towards the
// endpoint: as an L4Session if the client's connection is a tunnel of HTTP/1.1, too, else as a StreamTunnel.

#include <utility>

#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

bool Exchange::can_move() const {
  if (over_ || !client_ || !upstream_ || request_ended_ || response_.ended() || response_.cut()) return false;
  return !to_->speaks_http2() && connection_->codec().can_move() && body_.empty() && !body_.buffered() &&
         !response_.holds_data();
}

void Exchange::begin_moving() { connection_->begin_moving(); }

void Exchange::stay() {
  if (!client_ || !upstream_) return;
  client_->set_reading(!body_.paused());
  upstream_->set_reading(!response_.paused());
  connection_->stay();
}

// Both streams may have been paused because the other side took no data.
bool Exchange::pass_all_on() {
  client_->set_reading(true);
  upstream_->set_reading(true);
  return connection_->empty_codec();
}

size_t Exchange::queued() const { return client_->queued(); }

Transport& Exchange::endpoint_transport() { return connection_->transport(); }

MovingSession::Endpoint Exchange::endpoint_names() const {
  return {to_->config().name, to_->state().address(endpoint_).text()};
}

ForwardingState Exchange::forwarding_state() const {
  return {.age_ms = now_ms() - deadlines_.started_ms, .quiet_ms = now_ms() - deadlines_.active_ms, .source = {}};
}

void Exchange::depart() {
  end_ = HttpEnd::kMoved;
  finish();
  client_ = upstream_ = nullptr;
  session_ = nullptr;
  connection_->leave_with_tunnel();
  std::exchange(connection_, nullptr)->detach();
  leave_endpoint();
  retire();
}

void Exchange::on_endpoint_detached() {
  if (session_) session_->continue_moving();
}

void Exchange::on_endpoint_ends() {
  if (session_) session_->stay();
}

}  // namespace sluice
