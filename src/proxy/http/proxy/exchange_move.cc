// An exchange that moves to another process with the client's connection, while its response is under way.
//
// A tunnel of HTTP/1.1 to the endpoint has no state but the bytes that wait. So in the other process it continues
// without HTTP towards the endpoint: as an L4Session if the client's connection is a tunnel of HTTP/1.1, too, else as a
// StreamTunnel. A stream of HTTP/2 to the endpoint continues as a StreamPair.

#include <algorithm>
#include <utility>

#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/settled_tunnel.h"
#include "proxy/http/proxy/upstream_connection.h"
#include "proxy/listener/client_acceptor.h"
#include "sluice/internal/check.h"

namespace sluice {

bool Exchange::can_move() const {
  if (over_ || !client_ || !upstream_ || !response_.begun() || response_.ended() || response_.cut()) return false;
  if (!body_.empty() || body_.buffered() || body_.mirrored() || body_.paced() || !response_.passes_through())
    return false;
  if (to_->speaks_http2()) return session_->http2() && (!tunnel_ || tunnel_agreed_);
  return tunnel_agreed_ && !request_ended_ && connection_->codec().can_move();
}

UpstreamConnection* Exchange::shared_connection() { return upstream_ && to_->speaks_http2() ? connection_ : nullptr; }

StreamPairState Exchange::pair_state() const {
  const uint64_t now = now_ms();
  StreamPairState state{.quiet_ms = now - deadlines_.active_ms,
                        .idle_timeout_ms = config::milliseconds(idle_timeout()),
                        .request_ended = request_ended_,
                        .tunnel = tunnel_};
  if (deadlines_.whole_due_ms != RequestDeadlines::kNever) {
    state.left_ms = deadlines_.whole_due_ms - std::min(now, deadlines_.whole_due_ms);
  }
  return state;
}

ForwardingState Exchange::forwarding_state() const {
  return {.age_ms = now_ms() - deadlines_.started_ms, .quiet_ms = now_ms() - deadlines_.active_ms, .source = {}};
}

void Exchange::begin_moving() { connection_->begin_moving(); }

void Exchange::stay() {
  if (!client_ || !upstream_) return;
  client_->set_reading(body_.reads());
  upstream_->set_reading(!response_.paused());
  connection_->stay();
}

// Both streams may have been paused because the other side took no data.
bool Exchange::pass_all_on() {
  client_->set_reading(true);
  upstream_->set_reading(true);
  return connection_->empty_codec();
}

Transport& Exchange::endpoint_transport() { return connection_->transport(); }

MovingSession::Endpoint Exchange::endpoint_names() const {
  return {to_->config().name, to_->state().address(endpoint_).text()};
}

StreamReceiver::Destination Exchange::destination() const {
  if (!to_) return {};
  return {to_->config().name, upstream_ ? to_->endpoint_name(endpoint_) : std::string_view()};
}

void Exchange::depart() {
  end_ = HttpEnd::kMoved;
  finish();
  leave_streams();
}

// They are gone with their connections.
void Exchange::leave_streams() {
  client_ = upstream_ = nullptr;
  session_ = nullptr;
  if (!to_->speaks_http2()) connection_->leave_with_tunnel();
  std::exchange(connection_, nullptr)->detach();
  leave_endpoint();
  retire();
}

// The spans of a recorded request need all of it.
bool Exchange::can_settle() const {
  return can_move() && !to_->speaks_http2() && !trace_ && broken_ == 0 && !has_place() && !hedge_ &&
         &listener_ == &session_->listener() && client_->queued() == 0 && upstream_->queued() == 0 &&
         connection_->transport().queued() == 0 && deadlines_.whole_due_ms == RequestDeadlines::kNever;
}

void Exchange::settle_as(ClientAcceptor& acceptor, SettlingClient&& client) {
  const WorkerUpstreams& upstreams = acceptor.upstreams();
  const auto to = std::ranges::find(upstreams, to_->upstream());
  SLUICE_CHECK(to != upstreams.end());  // Of its own listener.
  SettledTunnel::begin(acceptor, std::move(client), *this,
                       {.transport = connection_->transport(),
                        .upstream = static_cast<uint32_t>(to - upstreams.begin()),
                        .endpoint = endpoint_,
                        .active_ms = deadlines_.active_ms,
                        .log = log_,
                        .outcome = {.status = status_,
                                    .request_bytes = body_.bytes(),
                                    .response_bytes = response_.bytes(),
                                    .attempts = attempts_}});
  leave_streams();
}

void Exchange::on_endpoint_detached() {
  if (session_) session_->continue_moving();
}

void Exchange::on_endpoint_ends() {
  if (session_) session_->stay();
}

}  // namespace sluice
