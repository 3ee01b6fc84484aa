// What the table of connections shows of an HttpSession.

#include <algorithm>
#include <optional>

#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/listener/client_acceptor.h"

namespace sluice {

ConnectionFacts HttpSession::facts() const {
  ConnectionFacts facts;
  facts.kind = kind();
  facts.streams = codec_ ? codec_->streams() : 0;
  if (ending()) {
    facts.state = ConnectionState::kClosing;
  } else if (moving_) {
    facts.state = ConnectionState::kMoving;
  } else if (beginning_) {
    facts.state = beginning_->setup ? ConnectionState::kHandshake : ConnectionState::kInspecting;
  } else if (paused_ms_ != 0) {
    facts.state = ConnectionState::kPaused;
  } else if (draining_) {
    facts.state = ConnectionState::kDraining;
  } else if (facts.kind == SessionKind::kTunnel) {
    facts.state = ConnectionState::kForwarding;
  } else {
    const bool works = facts.streams > 0 || (codec_ && codec_->mid_head());
    facts.state = works ? ConnectionState::kRequest : ConnectionState::kIdle;
  }
  facts.started_ms = started_ms_;
  facts.active_ms = std::max({last_active_ms(), last_sent_ms(), started_ms_});
  facts.queued_bytes = transport_.queued() + (codec_ ? codec_->queued() : 0);
  facts.memory_bytes = facts.queued_bytes + (codec_ ? codec_->held_bytes() : 0);
  if (beginning_) facts.memory_bytes += beginning_->first.size();
  if (moving_) facts.memory_bytes += moving_->late.size();
  facts.protection = transport_.protocol();
  return facts;
}

void HttpSession::add_details(ConnectionDetails& details) const {
  if (const auto totals = transport_.socket().totals()) {
    details.bytes_in = totals->received;
    details.bytes_out = totals->acknowledged;
  }
  if (!codec_) return;
  for (const StreamReceiver* const each : codec_->receivers()) {
    const StreamReceiver::Destination to = each ? each->destination() : StreamReceiver::Destination();
    if (to.upstream.empty()) continue;
    details.upstream = to.upstream;
    details.endpoint = to.endpoint;
    if (!to.endpoint.empty()) return;
  }
}

uint64_t HttpSession::transferred_bytes() const {
  const auto totals = transport_.socket().totals();
  return totals ? totals->received + totals->acknowledged : 0;
}

PeerAddress HttpSession::peer() const {
  if (beginning_ && beginning_->setup) return beginning_->setup->source();
  const PeerAddress known = client_ip_.address(client_port_);
  return known.is_set() ? known : PeerAddress::peer_of(transport_.socket().fd());
}

}  // namespace sluice
