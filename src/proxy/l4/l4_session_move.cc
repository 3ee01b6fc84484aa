// An L4Session that moves to another process: it lets go of its connections, writes its state, and a session there
// continues where it stopped.
//
// The state: ForwardingState; the client's transport and the endpoint's (Transport::write_state); if the listener has
// an access log, ConnectionLog.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "alts_like/record_state.h"
#include "net/worker.h"
#include "proxy/l4/connection_log.h"
#include "proxy/l4/l4_session.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/listener/moving_session.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// A session whose connections are not detached after this long continues, and is visited again later.
constexpr uint64_t kMoveTimeoutMs = 1000;

}  // namespace

bool L4Session::move_out() {
  if (state_ == State::kMoving) return true;
  if (state_ != State::kForwarding || stays_ || paced()) return false;
  state_ = State::kMoving;
  arm_timer(acceptor_.worker().now_ms() + kMoveTimeoutMs);
  client_.detach();
  upstream_.detach();
  return true;
}

StayReason L4Session::stay_reason() const {
  if (stays_) return StayReason::kReturned;
  switch (state_) {
    case State::kSetup:
    case State::kHello:
      return StayReason::kHandshake;
    case State::kConnecting:
    case State::kRetrying:
      return StayReason::kConnecting;
    case State::kForwarding:
      return paced() ? StayReason::kPaced : StayReason::kMoving;
    case State::kMoving:
      return StayReason::kMoving;
    case State::kDraining:
    case State::kClosing:
      break;
  }
  return StayReason::kEnding;
}

void L4Session::on_detached(Transport&) {
  if (state_ == State::kMoving && client_.detached() && upstream_.detached()) depart();
}

// Precondition: both transports are detached.
void L4Session::depart() {
  if (!acceptor_.moving_out()) return stay();
  const uint64_t now = acceptor_.worker().now_ms();
  MovingSession moving;
  moving.kind = acceptor_.listener().config->tcp ? MovingSession::Kind::kTcp : MovingSession::Kind::kTunnel;
  moving.listeners = {acceptor_.listener().config->name};
  moving.endpoints = {{upstream_state().config().name, upstream_state().address(endpoint_index_).text()}};
  StateWriter out(moving.state);
  ForwardingState state{.age_ms = now - started_ms_, .quiet_ms = now - last_active_ms_, .source = {}};
  if (source_place_) state.source = source_place_->source;
  state.write(out);
  if (!client_.write_state(out) || !upstream_.write_state(out)) return finish(SessionEnd::kNotResumed);
  if (const ConnectionLog* const line = log()) line->write_state(out);
  moving.fds = {client_.take(), upstream_.take()};
  state_ = State::kClosing;
  count_end(SessionEnd::kMoved);
  timer_.cancel();
  leave_endpoint();
  acceptor_.departures().depart(acceptor_.worker().index(), std::move(moving));
}

// Continues here, if it was about to move.
void L4Session::stay() {
  if (state_ != State::kMoving) return;
  state_ = State::kForwarding;
  client_.reattach();
  upstream_.reattach();
  continue_forwarding();
}

bool L4Session::resume(ClientAcceptor& acceptor, ListenerLog* log, MovingSession& moving, bool stays) {
  if (moving.fds.size() != 2) return false;
  acceptor.admit_resumed();
  L4Session* const session = make(acceptor, {.log = log});
  session->stays_ = stays;
  if (!session->read_state(moving)) {
    session->finish(SessionEnd::kNotResumed);
    return true;
  }
  session->state_ = State::kForwarding;
  session->use_endpoint();
  session->continue_forwarding();
  session->maybe_finished();
  acceptor.resumed(*session);
  return true;
}

bool L4Session::read_state(MovingSession& moving) {
  StateReader in(moving.state);
  const std::vector<int> fds = moving.take_fds();
  const uint64_t now = acceptor_.worker().now_ms();
  const ForwardingState state = ForwardingState::read(in);
  started_ms_ = now - std::min(state.age_ms, now);
  last_active_ms_ = now - std::min(state.quiet_ms, now);
  if (state.source) source_place_ = acceptor_.take_source_place(*state.source);
  const bool client_read = client_.restore(fds[0], in);
  const bool upstream_read = upstream_.restore(fds[1], in);
  if (!client_read || !upstream_read || !in.ok() || moving.endpoints.size() != 1) return false;
  const MovingSession::Endpoint& endpoint = moving.endpoints[0];
  const std::optional<EndpointPlace> found = find_endpoint(acceptor_.upstreams(), endpoint.upstream, endpoint.address);
  if (!found) return false;
  upstream_index_ = found->upstream;
  endpoint_index_ = found->slot;
  return read_log(in, fds[0]);
}

// The numbers of the log follow the rest if the listener had one in the process that the session comes from. If it had
// none, they begin here; if it has none here, they are left.
bool L4Session::read_log(StateReader& in, int client_fd) {
  ConnectionLog* const line = log();
  if (!line) return true;
  if (!in.done()) return line->read_state(in) && in.done();
  line->note_client(PeerAddress::peer_of(client_fd));
  return true;
}

void L4Session::begin_with(Begun&& from) {
  client_.take_over(from.client);
  upstream_.take_over(from.upstream);
  upstream_index_ = from.upstream_index;
  endpoint_index_ = from.endpoint_index;
  started_ms_ = from.started_ms;
  last_active_ms_ = from.active_ms;
  source_place_ = std::move(from.source_place);
  state_ = State::kForwarding;
  use_endpoint();
  continue_forwarding();
}

// Reads on, and measures the time again. A side whose output is too long is read later (on_sent).
void L4Session::continue_forwarding() {
  quiet_ = false;
  on_timer();
  if (state_ != State::kForwarding) return;
  if (upstream_.queued() < high_mark()) client_.start_reading();
  if (client_.queued() < high_mark()) upstream_.start_reading();
}

}  // namespace sluice
