// A tunnel that moves to another process, where it continues as a pair of connections without HTTP (L4Session): both
// its connections are tunnels of HTTP/1.1, which have no state but the bytes that wait.

#include <cstdint>
#include <utility>

#include "alts_like/record_state.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/upstream_connection.h"
#include "proxy/listener/moving_session.h"

namespace sluice {

namespace {

// How often the two connections take from each other what waits in them, at most. More waits only if one of them
// takes no data, and then the tunnel moves later.
constexpr int kRounds = 4;

}  // namespace

// Whether both streams are open tunnels of HTTP/1.1, with nothing between them.
bool Exchange::can_move() const {
  if (over_ || !tunnel_agreed_ || !client_ || !upstream_ || request_ended_ || response_.ended() || response_.cut()) {
    return false;
  }
  return session_->may_move_tunnel() && session_->codec().tunnel() == this && connection_->codec().tunnel() == this &&
         body_.empty() && !body_.buffered() && !response_.holds_data();
}

bool Exchange::move_out() {
  if (moving_) return true;
  if (!can_move()) return false;
  moving_ = true;
  session_->begin_moving_tunnel();
  connection_->begin_moving_tunnel();
  return true;
}

bool Exchange::detached() const {
  return session_->tunnel_transport().detached() && connection_->tunnel_transport().detached();
}

void Exchange::on_detached() {
  if (moving_ && detached()) depart();
}

// Precondition: both transports are detached.
void Exchange::depart() {
  bool empty = false;
  for (int i = 0; i < kRounds && !empty && can_move(); ++i) {
    const bool client_empty = session_->empty_tunnel();
    empty = connection_->empty_tunnel() && client_empty && session_->codec().tunnel_is_empty();
  }
  if (!empty || !can_move()) return stay();
  if (!detached()) return;  // Data was passed on. on_detached() follows once it is queued.
  moving_ = false;
  MovingSession moving;
  moving.kind = MovingSession::Kind::kTunnel;
  moving.upstream = to_->config().name;
  moving.endpoint = to_->state().address(endpoint_).text();
  StateWriter out(moving.state);
  ForwardingState state{.age_ms = now_ms() - deadlines_.started_ms, .quiet_ms = now_ms() - deadlines_.active_ms};
  if (const Source* const source = session_->counted_source()) state.source = *source;
  state.write(out);
  Transport &client = session_->tunnel_transport(), &upstream = connection_->tunnel_transport();
  if (!client.write_state(out) || !upstream.write_state(out)) return fail(HttpEnd::kShutdown);
  moving.fds = {client.take(), upstream.take()};
  end_ = HttpEnd::kMoved;
  finish();
  client_ = upstream_ = nullptr;
  std::exchange(session_, nullptr)->depart_with_tunnel(std::move(moving));
  UpstreamConnection& connection = *std::exchange(connection_, nullptr);
  connection.leave();
  connection.detach();
  leave_endpoint();
  retire();
}

void Exchange::stay() {
  if (!moving_) return;
  moving_ = false;
  session_->end_moving_tunnel();
  connection_->end_moving_tunnel();
}

}  // namespace sluice
