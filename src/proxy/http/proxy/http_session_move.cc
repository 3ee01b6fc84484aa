// An HttpSession that moves to another process while it has no request, or only streams that move with it: it lets go
// of its connection, writes its state, and a session there continues where it stopped. MovingGroup leads. (Its streams:
// exchange_move.cc.)
//
// The state: the version; the number of requests of HTTP/1.1; the ages of the connection and of the wait for a request,
// in milliseconds; the client's address; what the handshake agreed on, if requests need it; the codec of HTTP/2
// (Http2Codec::write_state); bytes that arrived last; the transport (Transport::write_state); the number of streams,
// and of each: the kind (kOwnConnection, kSharedConnection), then a ForwardingState and the transport, or its
// StreamPlace and a StreamPairState.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alts_like/record_state.h"
#include "net/worker.h"
#include "proxy/http/h1/http1_server.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/http/proxy/agreement_state.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/movable_stream.h"
#include "proxy/http/proxy/moving_group.h"
#include "proxy/http/proxy/stream_pair.h"
#include "proxy/http/proxy/stream_tunnel.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/listener/moving_session.h"

namespace sluice {

namespace {

// A session whose connection is not detached after this long continues, and is visited again later.
constexpr uint64_t kDetachTimeoutMs = 1000;
// A session that continues is checked after this long.
constexpr uint64_t kQuietAfterMoveMs = 1000;
// How long a session that could not move reads no new requests, once in a second: a request that takes long must not
// hold up the others of its connection.
constexpr uint64_t kHoldRequestsMs = 100;

constexpr uint8_t kOwnConnection = 0, kSharedConnection = 1;

}  // namespace

bool HttpSession::can_move() const {
  if (ending() || stays_ || transport_.ended()) return false;
  if (beginning_) return !draining_ && !beginning_->setup;
  if (!codec_) return !draining_;
  if (!codec_->can_move()) return false;
  if (codec_->streams() == 0) return !draining_ && !codec_->has_output();
  return std::ranges::all_of(codec_->receivers(), [](StreamReceiver* receiver) {
    const MovableStream* const stream = receiver->movable_stream();
    return stream && stream->can_move();
  });
}

StayReason HttpSession::stay_reason() const {
  if (moving_) return StayReason::kMoving;
  if (stays_) return StayReason::kReturned;
  if (beginning_ && beginning_->setup) return StayReason::kHandshake;
  if (ending() || transport_.ended()) return StayReason::kEnding;
  if (can_move()) {
    const bool shares = std::ranges::any_of(movable_streams(), [](MovableStream* s) { return s->shared_connection(); });
    return shares ? StayReason::kGroup : StayReason::kMoving;
  }
  return codec_ && codec_->streams() > 0 ? StayReason::kRequest : StayReason::kEnding;
}

// In the order of the codec's streams.
std::vector<MovableStream*> HttpSession::movable_streams() const {
  std::vector<MovableStream*> streams;
  if (!codec_) return streams;
  for (StreamReceiver* const receiver : codec_->receivers()) {
    if (MovableStream* const stream = receiver->movable_stream()) streams.push_back(stream);
  }
  return streams;
}

bool HttpSession::move_out() { return moving_ || MovingGroup::begin(*this); }

void HttpSession::begin_moving(MovingGroup& group) {
  moving_ = make_in_chunk<Moving>(services_.worker().pool());
  moving_->group = &group;
  unpack_codec();
  arm_timer(services_.worker().now_ms() + kDetachTimeoutMs);
}

void HttpSession::detach() {
  transport_.detach();
  for (MovableStream* const stream : movable_streams()) {
    if (!stream->shared_connection()) stream->begin_moving();
  }
}

void HttpSession::on_detached(Transport&) { continue_moving(); }

void HttpSession::continue_moving() {
  if (moving_) moving_->group->continue_moving();
}

void HttpSession::stay() {
  if (moving_) [[unlikely]]
    moving_->group->stay();
}

bool HttpSession::detached() const {
  return transport_.detached() && std::ranges::all_of(movable_streams(), [](MovableStream* stream) {
           return stream->shared_connection() || stream->endpoint_transport().detached();
         });
}

bool HttpSession::pass_all_on() {
  const std::vector<MovableStream*> streams = movable_streams();
  if (streams.empty()) return true;
  bool empty = true;
  for (MovableStream* const stream : streams) {
    if (!stream->shared_connection()) empty = stream->pass_all_on() && empty;
  }
  empty = empty_codec() && empty;
  if (empty && is_tunnel() && !moving_->late.empty()) {
    acceptor_->counters().bytes_in.add(moving_->late.size());
    streams[0]->endpoint_transport().send(std::move(moving_->late));
  }
  return empty;
}

size_t HttpSession::moving_bytes() const {
  if (!moving_) return 0;
  size_t bytes = transport_.queued() + moving_->late.size();
  if (version_ == Version::kHttp2) bytes += static_cast<const Http2Codec&>(*codec_).queued();
  for (MovableStream* const stream : movable_streams()) {
    if (!stream->shared_connection()) bytes += stream->endpoint_transport().queued();
  }
  return bytes;
}

void HttpSession::continue_here() {
  if (!moving_) return;
  Buffer late = std::move(moving_->late);
  moving_.reset();
  if (ending()) return;
  for (MovableStream* const stream : movable_streams()) {
    if (!stream->shared_connection()) stream->stay();
  }
  transport_.reattach();
  arm_timer(services_.worker().now_ms() + kQuietAfterMoveMs);
  release_requests();
  if (codec_) wake();
  if (!late.empty()) on_data(transport_, std::move(late));
}

void HttpSession::hold_requests() {
  if (version_ != Version::kHttp2 || !codec_ || codec_->streams() == 0 || ending() || stays_ || moving_) return;
  const uint64_t now = services_.worker().now_ms();
  const auto second = static_cast<uint8_t>(1 + now / 1000 % UINT8_MAX);
  if (std::exchange(held_at_, second) == second) return;
  quiet_ = false;  // So that the timer stays as it is armed here.
  static_cast<Http2Codec&>(*codec_).hold_requests(true);
  arm_timer(now + kHoldRequestsMs);
}

void HttpSession::release_requests() {
  if (version_ != Version::kHttp2 || !codec_ || !static_cast<Http2Codec&>(*codec_).holds_requests()) return;
  static_cast<Http2Codec&>(*codec_).hold_requests(false);
  wake();
}

Departures* HttpSession::departures() const { return acceptor_->moving_out() ? &acceptor_->departures() : nullptr; }

bool HttpSession::is_tunnel() const { return version_ == Version::kHttp1 && codec_ && codec_->streams() > 0; }

// ---- Within this process ----

bool HttpSession::can_settle() const {
  if (!is_tunnel() || draining_ || stays_ || ending() || !acceptor_->settled()) return false;
  if (transport_.queued() > 0 || codec_->has_output() || !can_move()) return false;
  const std::vector<MovableStream*> streams = movable_streams();
  return streams.size() == 1 && streams[0]->can_settle();
}

void HttpSession::begin_settling() { MovingGroup::begin_settling(*this); }

void HttpSession::settle() {
  MovableStream& tunnel = *movable_streams()[0];
  moving_.reset();
  end_counted_ = true;  // The tunnel will count it.
  tunnel.settle_as(*acceptor_, {.transport = transport_,
                                .started_ms = started_ms_,
                                .source_place = std::move(source_place_),
                                .peer = client_ip_.address(client_port_)});
  codec_.reset();  // Its stream has left.
  leave();
}

// ---- The state ----

bool HttpSession::write_tunnel(StateWriter& out, MovingSession& moving) {
  moving.listeners.push_back(acceptor_->listener().config->name);
  MovableStream& tunnel = *movable_streams()[0];
  ForwardingState state = tunnel.forwarding_state();
  if (source_place_) state.source = source_place_->source;
  state.write(out);
  moving.endpoints.push_back(tunnel.endpoint_names());
  return transport_.write_state(out) && tunnel.endpoint_transport().write_state(out);
}

bool HttpSession::write_state(StateWriter& out, MovingSession& moving, const StreamPlaces& places) {
  moving.listeners.push_back(acceptor_->listener().config->name);
  write_connection(out);
  bool written = transport_.write_state(out);
  const std::vector<MovableStream*> streams = movable_streams();
  out.u16(static_cast<uint16_t>(streams.size()));
  for (MovableStream* const stream : streams) {
    if (stream->shared_connection()) {
      out.u8(kSharedConnection);
      places.at(*stream).write(out);
      stream->pair_state().write(out);
    } else {
      out.u8(kOwnConnection);
      stream->forwarding_state().write(out);
      written = written && stream->endpoint_transport().write_state(out);
      moving.endpoints.push_back(stream->endpoint_names());
    }
  }
  return written;
}

// All but the transport and the streams.
void HttpSession::write_connection(StateWriter& out) {
  const uint64_t now = services_.worker().now_ms();
  if (version_ == Version::kHttp1 && codec_) {
    version_count_ = static_cast<const Http1Server&>(*codec_).requests();
    codec_.reset();
  }
  out.u8(static_cast<uint8_t>(version_));
  out.u32(http2() ? 0 : version_count_);
  out.u64(now - started_ms_);
  out.u64(now - waits_since_ms());
  out.u8(static_cast<uint8_t>(client_ip_.bytes().size()));
  out.bytes(client_ip_.bytes());
  write_agreement(out, agreed_.get());
  if (version_ == Version::kHttp2) static_cast<Http2Codec&>(*codec_).write_state(out);
  Buffer late;
  if (beginning_) late = std::move(beginning_->first);
  late.append(std::move(moving_->late));
  out.buffer(late);
}

void HttpSession::depart(MovingSession& moving) {
  moving.fds.push_back(transport_.take());
  for (MovableStream* const stream : movable_streams()) {
    if (!stream->shared_connection()) moving.fds.push_back(stream->endpoint_transport().take());
    stream->depart();
  }
  moving_.reset();
  count_end(SessionEnd::kMoved);
  leave();
}

void HttpSession::abandon() {
  moving_.reset();
  count_end(SessionEnd::kNotResumed);
  reset();
}

bool HttpSession::resume(ClientAcceptor& acceptor, HttpListener& listener, HttpServices& worker, ResumingGroup& from,
                         bool stays) {
  acceptor.admit_resumed();
  auto* const session = new HttpSession(acceptor, listener, worker);
  session->stays_ = stays;
  from.sessions.push_back({.session = session});
  return session->read_state(from);
}

bool HttpSession::read_state(ResumingGroup& from) {
  StateReader& in = from.in;
  const uint64_t now = services_.worker().now_ms();
  const uint8_t version = in.u8();
  version_count_ = in.u32();
  started_ms_ = now - std::min(in.u64(), now);
  last_body_ms_ = waits_since32_ms_ = static_cast<uint32_t>(now - std::min(in.u64(), now));
  client_ip_ = ClientIp(in.bytes(in.u8()));
  if (Source source; Source::from(client_ip_.bytes(), source)) source_place_ = acceptor_->take_source_place(source);
  agreed_ = read_agreement(in);
  ResumingGroup::Session& resumed = from.sessions.back();
  if (version == static_cast<uint8_t>(Version::kHttp2)) {
    codec_settings_ = listener_->codecs;
    resumed.codec.reset(Http2Codec::resume(codec_settings_->http2_shared, this, in).release());
  }
  resumed.late = in.buffer(services_.worker().pool());
  const int fd = from.take_fd();
  // Unless the address is from a PROXY header.
  if (const PeerAddress peer = PeerAddress::peer_of(fd); ClientIp(peer) == client_ip_) client_port_ = peer.port();
  const bool restored = transport_.restore(fd, in);
  if (!restored || version > static_cast<uint8_t>(Version::kHttp2)) return false;
  version_ = Version{version};
  if (version_ == Version::kHttp2 && !resumed.codec) return false;
  return read_streams(static_cast<Http2Codec*>(resumed.codec.get()), from);
}

// `codec`: null if it has no streams.
bool HttpSession::read_streams(Http2Codec* codec, ResumingGroup& from) {
  const std::vector<HttpStream*> streams = codec ? codec->take_streams() : std::vector<HttpStream*>();
  if (from.in.u16() != streams.size()) return false;
  for (HttpStream* const stream : streams) {
    if (from.in.u8() == kSharedConnection) {
      const StreamPlace place = StreamPlace::read(from.in);
      const StreamPairState state = StreamPairState::read(from.in);
      ResumingGroup::Connection* const connection = from.connection(place);
      HttpStream* const upstream = connection ? connection->take_stream(place) : nullptr;
      if (!upstream) return false;
      from.pairs.push_back(new StreamPair(*this, *stream, *connection->connection, *upstream, state));
    } else {
      const MovingSession::Endpoint* const names = from.take_endpoint();
      if (!names) return false;
      const auto found = find_endpoint(acceptor_->upstreams(), names->upstream, names->address);
      if (!found) return false;
      from.tunnels.push_back(new StreamTunnel(*this, *stream, acceptor_->upstreams()[found->upstream], found->slot));
      if (!from.tunnels.back()->read_state(from.take_fd(), from.in)) return false;
    }
  }
  return from.in.ok();
}

void HttpSession::start(CodecPointer codec) {
  if (codec) speak(std::move(codec));
  if (version_ == Version::kUnknown) beginning_ = make_in_chunk<Beginning>(services_.worker().pool());
  arm_timer(services_.worker().now_ms() + kQuietAfterMoveMs);
  transport_.start_reading();
  acceptor_->resumed(*this);
}

void HttpSession::read_late(Buffer&& late) {
  if (!late.empty()) on_data(transport_, std::move(late));
}

}  // namespace sluice
