#include "proxy/http/proxy/moving_group.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "net/worker.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/movable_stream.h"
#include "proxy/http/proxy/stream_pair.h"
#include "proxy/http/proxy/stream_tunnel.h"
#include "proxy/listener/client_acceptor.h"

namespace sluice {

namespace {

// How often the connections take from each other what waits in them. If more is left then, one of them takes no data,
// and the group moves later.
constexpr int kPassRounds = 4;

}  // namespace

void StreamPlace::write(StateWriter& out) const {
  out.u16(connection);
  out.u16(stream);
}

StreamPlace StreamPlace::read(StateReader& in) {
  StreamPlace place;
  place.connection = in.u16();
  place.stream = in.u16();
  return place;
}

// ---- Who moves ----

bool MovingGroup::begin(HttpSession& first) {
  std::unique_ptr<MovingGroup> group(new MovingGroup());
  const bool complete = group->collect(first);
  for (UpstreamConnection* const connection : group->connections_) connection->stop_sharing();
  if (!complete) {
    group->wait_for_requests();
    return false;
  }
  MovingGroup& moving = *group.release();  // It destroys itself at the end of a turn.
  for (UpstreamConnection* const connection : moving.connections_) connection->begin_moving(moving);
  for (HttpSession* const session : moving.sessions_) session->begin_moving(moving);
  for (UpstreamConnection* const connection : moving.connections_) connection->transport().detach();
  for (HttpSession* const session : moving.sessions_) session->detach();
  return true;
}

void MovingGroup::begin_settling(HttpSession& tunnel) {
  auto* const group = new MovingGroup();  // It destroys itself at the end of a turn.
  group->sessions_.push_back(&tunnel);
  group->settles_ = true;
  tunnel.begin_moving(*group);
  tunnel.detach();
}

// Finds all that can be reached through shared connections. False: some of it cannot move now.
bool MovingGroup::collect(HttpSession& first) {
  if (!add(first)) return false;
  size_t next_connection = 0;
  for (size_t next_session = 0; next_session < sessions_.size(); ++next_session) {
    for (MovableStream* const stream : sessions_[next_session]->movable_streams()) {
      UpstreamConnection* const connection = stream->shared_connection();
      if (connection && !add(*connection)) return false;
      if (!connection) ++fds_;
    }
    for (; next_connection < connections_.size(); ++next_connection) {
      for (StreamReceiver* const receiver : connections_[next_connection]->codec().receivers()) {
        MovableStream* const stream = receiver->movable_stream();
        if (!stream || !stream->client_session() || !add(*stream->client_session())) return false;
      }
    }
  }
  return fds_ <= kMaxMovingFds;
}

// New requests of those that were found wait for a moment, so that there is an instant without a request that cannot
// move.
void MovingGroup::wait_for_requests() {
  if (fds_ > kMaxMovingFds) return;
  for (HttpSession* const session : sessions_) {
    if (session->departures()) session->hold_requests();
  }
}

bool MovingGroup::add(HttpSession& session) {
  if (!known_.insert(&session).second) return true;
  sessions_.push_back(&session);
  ++fds_;
  return session.departures() && !session.moving() && session.can_move();
}

bool MovingGroup::add(UpstreamConnection& connection) {
  if (!known_.insert(&connection).second) return true;
  if (!connection.may_try_to_move()) return false;
  connections_.push_back(&connection);
  ++fds_;
  return connection.can_move();
}

// ---- The move ----

void MovingGroup::continue_moving() {
  if (!done_ && detached()) settles_ ? settle() : depart();
}

// Each member is looked at once, unless there is a reason to begin with the first one for another time.
bool MovingGroup::detached() {
  size_t& connection = detached_connections_;
  size_t& session = detached_sessions_;
  while (connection < connections_.size() && connections_[connection]->transport().detached()) ++connection;
  while (session < sessions_.size() && sessions_[session]->detached()) ++session;
  return connection == connections_.size() && session == sessions_.size();
}

// False: something still waits, or there is too much of it.
bool MovingGroup::pass_all_on() {
  bool empty = false;
  for (int i = 0; i < kPassRounds && !empty; ++i) {
    empty = true;
    for (HttpSession* const session : sessions_) empty = session->pass_all_on() && empty;
    for (UpstreamConnection* const connection : connections_) empty = connection->empty_codec() && empty;
    empty = empty && std::ranges::none_of(sessions_, [](auto* each) { return each->has_output(); });
  }
  size_t bytes = 0;
  for (HttpSession* const session : sessions_) bytes += session->moving_bytes();
  for (UpstreamConnection* const connection : connections_) {
    bytes += connection->moving_bytes() + static_cast<const Http2Codec&>(connection->codec()).queued();
  }
  return empty && bytes <= kMaxMovingSessionBytes / 2;
}

void MovingGroup::depart() {
  const auto can_move = [this] {
    return std::ranges::all_of(sessions_, [](auto* each) { return each->can_move(); }) &&
           std::ranges::all_of(connections_, [](auto* each) { return each->can_move(); });
  };
  Departures* const departures = sessions_[0]->departures();
  if (!departures || !can_move() || !pass_all_on() || !can_move()) return stay();
  if (done_) return;
  detached_connections_ = detached_sessions_ = 0;
  if (!detached()) return;  // Data was passed on. continue_moving() follows once it is queued.
  MovingSession moving;
  if (!write_state(moving)) return abandon();
  for (UpstreamConnection* const connection : connections_) moving.fds.push_back(connection->take());
  for (HttpSession* const session : sessions_) session->depart(moving);
  finish();
  departures->depart(sessions_[0]->services().worker().index(), std::move(moving));
}

// Data that comes now, or waits, is a reason to stay as it is.
void MovingGroup::settle() {
  HttpSession& tunnel = *sessions_[0];
  if (!tunnel.can_settle() || !tunnel.pass_all_on() || tunnel.moving_bytes() > 0 || !tunnel.can_settle()) return stay();
  if (done_) return;
  finish();
  tunnel.settle();
}

bool MovingGroup::write_state(MovingSession& moving) {
  StateWriter out(moving.state);
  if (sessions_[0]->is_tunnel()) {
    moving.kind = MovingSession::Kind::kTunnel;
    return sessions_[0]->write_tunnel(out, moving);
  }
  moving.kind = MovingSession::Kind::kHttp;
  StreamPlaces places;
  out.u16(static_cast<uint16_t>(connections_.size()));
  bool written = true;
  for (size_t i = 0; i < connections_.size(); ++i) {
    const std::vector<StreamReceiver*> receivers = connections_[i]->codec().receivers();
    for (size_t j = 0; j < receivers.size(); ++j) {
      places.places[receivers[j]->movable_stream()] = {static_cast<uint16_t>(i), static_cast<uint16_t>(j)};
    }
    moving.endpoints.push_back(connections_[i]->endpoint_names());
    written = connections_[i]->write_state(out) && written;
  }
  for (HttpSession* const session : sessions_) written = session->write_state(out, moving, places) && written;
  return written;
}

void MovingGroup::stay() {
  if (done_) return;
  finish();
  for (UpstreamConnection* const connection : connections_) connection->continue_here();
  for (HttpSession* const session : sessions_) session->continue_here();
}

// The state of some part cannot be written, and what was written of the others cannot be used any more.
void MovingGroup::abandon() {
  finish();
  for (UpstreamConnection* const connection : connections_) connection->abandon();
  for (HttpSession* const session : sessions_) session->abandon();
}

// Members may still be at work in it.
void MovingGroup::finish() {
  done_ = true;
  sessions_[0]->services().worker().defer([](void* self) { delete static_cast<MovingGroup*>(self); }, this);
}

// ---- In the other process ----

bool MovingGroup::resume(MovingSession& moving, FindListener find, bool stays) {
  if (moving.fds.size() != moving.listeners.size() + moving.endpoints.size()) return false;
  std::vector<std::pair<ClientAcceptor*, HttpListener*>> listeners;
  for (const std::string& name : moving.listeners) {
    listeners.push_back(find(name));
    if (!listeners.back().first) return false;
  }
  ClientAcceptor& first = *listeners[0].first;
  ResumingGroup group(moving);
  const auto read_connection = [&] {
    const MovingSession::Endpoint* const names = group.take_endpoint();
    if (!names) return false;
    const auto found = find_endpoint(first.upstreams(), names->upstream, names->address);
    if (!found) return false;
    HttpUpstream& upstream = *listeners[0].second->upstreams[found->upstream];
    if (!upstream.speaks_http2()) return false;
    UpstreamConnection& connection = upstream.add_connection(found->slot);
    ResumingGroup::Connection& resumed = group.connections.emplace_back();
    resumed.connection = &connection;
    if (!connection.read_state(group.take_fd(), group.in, resumed.codec, resumed.late)) return false;
    resumed.streams = static_cast<Http2Codec&>(*resumed.codec).take_streams();
    return true;
  };
  bool good = true;
  for (uint16_t left = group.in.u16(); left > 0 && good; --left) good = read_connection();
  for (size_t i = 0; i < listeners.size() && good; ++i) {
    const auto& [acceptor, listener] = listeners[i];
    good = HttpSession::resume(*acceptor, *listener, listener->http, group, stays);
  }
  const auto is_taken = [](const ResumingGroup::Connection& each) {
    return std::ranges::all_of(each.streams, [](const HttpStream* stream) { return !stream; });
  };
  good = good && group.in.done() && std::ranges::all_of(group.connections, is_taken);
  if (!good) {
    for (StreamTunnel* const tunnel : group.tunnels) tunnel->abandon();
    for (StreamPair* const pair : group.pairs) pair->abandon();
    for (auto& each : group.connections) each.connection->abandon();
    for (auto& each : group.sessions) each.session->abandon();
    return !group.sessions.empty();
  }
  for (auto& each : group.connections) each.connection->start(std::move(each.codec));
  for (auto& each : group.sessions) each.session->start(std::move(each.codec));
  for (StreamTunnel* const tunnel : group.tunnels) tunnel->start();
  for (StreamPair* const pair : group.pairs) pair->start();
  for (auto& each : group.connections) each.connection->read_late(std::move(each.late));
  for (auto& each : group.sessions) each.session->read_late(std::move(each.late));
  return true;
}

}  // namespace sluice
