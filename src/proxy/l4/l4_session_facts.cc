// What the table of connections shows of an L4Session.

#include <optional>

#include "proxy/l4/connection_log.h"
#include "proxy/l4/l4_session.h"
#include "proxy/listener/client_acceptor.h"

namespace sluice {

ConnectionFacts L4Session::facts() const {
  ConnectionFacts facts;
  facts.kind = acceptor_.listener().config->tcp ? SessionKind::kTcp : SessionKind::kTunnel;
  switch (state_) {
    case State::kSetup:
      facts.state = ConnectionState::kHandshake;
      break;
    case State::kHello:
      facts.state = ConnectionState::kInspecting;
      break;
    case State::kConnecting:
    case State::kRetrying:
      facts.state = ConnectionState::kConnecting;
      break;
    case State::kForwarding:
      facts.state = ConnectionState::kForwarding;
      break;
    case State::kMoving:
      facts.state = ConnectionState::kMoving;
      break;
    case State::kDraining:
      facts.state = ConnectionState::kDraining;
      break;
    case State::kClosing:
      facts.state = ConnectionState::kClosing;
      break;
  }
  facts.streams = state_ == State::kForwarding || state_ == State::kMoving || state_ == State::kDraining ? 1 : 0;
  facts.started_ms = started_ms_;
  facts.active_ms = last_active_ms_;
  facts.queued_bytes = client_.queued() + upstream_.queued();
  facts.memory_bytes = facts.queued_bytes + (setup_ ? setup_->held.size() : 0);
  facts.protection = client_.protocol();
  return facts;
}

void L4Session::add_details(ConnectionDetails& details) const {
  if (const auto totals = client_.socket().totals()) {
    details.bytes_in = totals->received;
    details.bytes_out = totals->acknowledged;
  }
  if (state_ != State::kConnecting && !endpoint_counted_) return;
  details.upstream = upstream_state().config().name;
  if (endpoint_counted_) details.endpoint = upstream_state().slots().text(endpoint_index_);
}

uint64_t L4Session::transferred_bytes() const {
  const auto totals = client_.socket().totals();
  return totals ? totals->received + totals->acknowledged : 0;
}

// A PROXY header is forgotten with the setup, unless there is an access log.
PeerAddress L4Session::peer() const {
  const ConnectionLog* const line = log();
  return line && !setup_ ? line->client() : client_source();
}

}  // namespace sluice
