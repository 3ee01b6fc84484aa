// An HttpSession that moves to another process while it has no request: it lets go of its connection, writes its state,
// and a session there continues where it stopped. (With a tunnel: exchange_move.cc.)
//
// The state: the version; the number of requests of HTTP/1.1; the ages of the connection and of the wait for a request,
// in milliseconds; the client's address; what the handshake agreed on, if requests need it; the codec of HTTP/2
// (Http2Codec::write_state); bytes that arrived last; the transport (Transport::write_state).

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/node_hash_set.h"
#include "alts_like/record_state.h"
#include "net/worker.h"
#include "proxy/http/h1/http1_server.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/movable_tunnel.h"
#include "proxy/http/proxy/stream_tunnel.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/listener/moving_session.h"

namespace sluice {

namespace {

// A session whose connection is not detached after this long continues, and is visited again later.
constexpr uint64_t kDetachTimeoutMs = 1000;
// A session that continues is checked after this long.
constexpr uint64_t kQuietAfterMoveMs = 1000;
// How often a tunnel's connections take from each other what waits in them. If more is left then, one of them takes no
// data, and the session moves later.
constexpr int kPassRounds = 4;

// The names of TLS versions and ciphers live as long as the thread. There are few.
std::string_view lasting(std::string_view name) {
  thread_local absl::node_hash_set<std::string> names;
  return *names.emplace(name).first;
}

void write_agreement(StateWriter& out, const Agreement* agreed) {
  out.u8(agreed != nullptr);
  if (!agreed) return;
  for (const std::string_view text : {agreed->version, agreed->cipher, std::string_view(agreed->server_name),
                                      std::string_view(agreed->alpn), std::string_view(agreed->common_name)}) {
    out.text(text);
  }
  out.u8(agreed->certified);
  out.u8(agreed->resumed);
  out.u32(static_cast<uint32_t>(agreed->peer_names.size()));
  for (const std::string& name : agreed->peer_names) out.text(name);
}

std::unique_ptr<Agreement> read_agreement(StateReader& in) {
  if (in.u8() == 0) return nullptr;
  auto agreed = std::make_unique<Agreement>();
  agreed->version = lasting(in.text());
  agreed->cipher = lasting(in.text());
  agreed->server_name = in.text();
  agreed->alpn = in.text();
  agreed->common_name = in.text();
  agreed->certified = in.u8() != 0;
  agreed->resumed = in.u8() != 0;
  for (uint32_t left = in.u32(); left > 0 && in.ok(); --left) agreed->peer_names.emplace_back(in.text());
  return agreed;
}

}  // namespace

// Whether it has no request, and nothing of one, but tunnels that can move with it.
bool HttpSession::can_move() const {
  if (ending() || stays_ || transport_.ended()) return false;
  if (beginning_) return !draining_ && !beginning_->setup;
  if (!codec_) return !draining_;
  if (!codec_->can_move()) return false;
  if (codec_->streams() == 0) return !draining_ && !codec_->has_output();
  return std::ranges::all_of(codec_->receivers(), [](StreamReceiver* receiver) {
    const MovableTunnel* const tunnel = receiver->movable_tunnel();
    return tunnel && tunnel->can_move();
  });
}

// In the order of the codec's streams.
std::vector<MovableTunnel*> HttpSession::tunnels() const {
  std::vector<MovableTunnel*> tunnels;
  if (!codec_) return tunnels;
  for (StreamReceiver* const receiver : codec_->receivers()) {
    if (MovableTunnel* const tunnel = receiver->movable_tunnel()) tunnels.push_back(tunnel);
  }
  return tunnels;
}

bool HttpSession::move_out() {
  if (moving_) return true;
  if (!can_move()) return false;
  moving_ = make_in_chunk<Moving>(services_.worker().pool());
  arm_timer(services_.worker().now_ms() + kDetachTimeoutMs);
  transport_.detach();
  for (MovableTunnel* const tunnel : tunnels()) tunnel->begin_moving();
  return true;
}

void HttpSession::on_detached(Transport&) { continue_moving(); }

void HttpSession::continue_moving() {
  if (moving_ && detached()) depart();
}

bool HttpSession::detached() const {
  return transport_.detached() &&
         std::ranges::all_of(tunnels(), [](MovableTunnel* tunnel) { return tunnel->endpoint_transport().detached(); });
}

// Passes on what waits between the client's transport and those of the endpoints. What the peer's windows of HTTP/2
// hold back moves with the codec. False: something else still waits, or there is too much of it.
bool HttpSession::pass_all_on(const std::vector<MovableTunnel*>& tunnels) {
  bool empty = tunnels.empty();
  for (int i = 0; i < kPassRounds && !empty; ++i) {
    empty = true;
    for (MovableTunnel* const tunnel : tunnels) empty = tunnel->pass_all_on() && empty;
    empty = empty_codec() && empty;
  }
  size_t queued = transport_.queued() + moving_->late.size();
  for (MovableTunnel* const tunnel : tunnels) queued += tunnel->queued() + tunnel->endpoint_transport().queued();
  return empty && queued <= kMaxMovingSessionBytes / 2;
}

void HttpSession::depart() {
  if (!acceptor_->moving_out() || !can_move()) return stay();
  const std::vector<MovableTunnel*> tunnels = this->tunnels();
  if (!pass_all_on(tunnels) || !can_move()) return stay();
  const bool is_tunnel = version_ == Version::kHttp1 && !tunnels.empty();
  if (is_tunnel && !moving_->late.empty()) {
    acceptor_->counters().bytes_in.add(moving_->late.size());
    tunnels[0]->endpoint_transport().send(std::move(moving_->late));
  }
  if (!detached()) return;  // Data was passed on. on_detached() follows once it is queued.
  MovingSession moving;
  moving.kind = is_tunnel ? MovingSession::Kind::kTunnel : MovingSession::Kind::kHttp;
  moving.listener = acceptor_->listener().config->name;
  StateWriter out(moving.state);
  if (is_tunnel) {
    ForwardingState state = tunnels[0]->forwarding_state();
    if (source_place_) state.source = source_place_->source;
    state.write(out);
  } else {
    write_state(out);
  }
  bool written = transport_.write_state(out);
  if (!is_tunnel) out.u16(static_cast<uint16_t>(tunnels.size()));
  for (MovableTunnel* const tunnel : tunnels) {
    if (!is_tunnel) tunnel->forwarding_state().write(out);
    written = written && tunnel->endpoint_transport().write_state(out);
    moving.endpoints.push_back(tunnel->endpoint_names());
  }
  if (!written) {
    count_end(SessionEnd::kNotResumed);
    moving_.reset();
    return reset();
  }
  moving.fds.push_back(transport_.take());
  for (MovableTunnel* const tunnel : tunnels) {
    moving.fds.push_back(tunnel->endpoint_transport().take());
    tunnel->depart();
  }
  moving_.reset();
  count_end(SessionEnd::kMoved);
  leave();
  acceptor_->departures().depart(services_.worker().index(), std::move(moving));
}

// All but the transport and the tunnels.
void HttpSession::write_state(StateWriter& out) {
  const uint64_t now = services_.worker().now_ms();
  if (version_ == Version::kHttp1 && codec_) {
    requests_ = static_cast<const Http1Server&>(*codec_).requests();
    codec_.reset();
  }
  out.u8(static_cast<uint8_t>(version_));
  out.u32(requests_);
  out.u64(now - started_ms_);
  out.u64(now - waits_since_ms_);
  out.u8(static_cast<uint8_t>(client_ip_.bytes().size()));
  out.bytes(client_ip_.bytes());
  write_agreement(out, agreed_.get());
  if (version_ == Version::kHttp2) static_cast<Http2Codec&>(*codec_).write_state(out);
  Buffer late;
  if (beginning_) late = std::move(beginning_->first);
  late.append(std::move(moving_->late));
  out.buffer(late);
}

void HttpSession::stay() {
  if (!moving_) [[likely]]
    return;
  Buffer late = std::move(moving_->late);
  moving_.reset();
  for (MovableTunnel* const tunnel : tunnels()) tunnel->stay();
  transport_.reattach();
  arm_timer(services_.worker().now_ms() + kQuietAfterMoveMs);
  if (codec_) wake();
  if (!late.empty()) on_data(transport_, std::move(late));
}

bool HttpSession::resume(ClientAcceptor& acceptor, HttpListener& listener, HttpServices& worker, MovingSession& moving,
                         bool stays) {
  if (moving.fds.size() != 1 + moving.endpoints.size()) return false;
  auto* const session = new HttpSession(acceptor, listener, worker);
  session->stays_ = stays;
  if (!session->read_state(moving)) {
    session->count_end(SessionEnd::kNotResumed);
    session->reset();
  }
  return true;
}

bool HttpSession::read_state(MovingSession& moving) {
  StateReader in(moving.state);
  const uint64_t now = services_.worker().now_ms();
  const uint8_t version = in.u8();
  requests_ = in.u32();
  started_ms_ = now - std::min(in.u64(), now);
  waits_since_ms_ = last_body_ms_ = now - std::min(in.u64(), now);
  client_ip_ = ClientIp(in.bytes(in.u8()));
  // Unless the address is from a PROXY header.
  if (const PeerAddress peer = PeerAddress::peer_of(moving.fds[0]); ClientIp(peer) == client_ip_)
    client_port_ = peer.port();
  if (Source source; Source::from(client_ip_.bytes(), source)) source_place_ = acceptor_->take_source_place(source);
  agreed_ = read_agreement(in);
  CodecPointer codec;
  if (version == static_cast<uint8_t>(Version::kHttp2)) {
    codec_settings_ = listener_->codecs;
    codec.reset(Http2Codec::resume(codec_settings_->http2_shared, *this, in).release());
  }
  Buffer late = in.buffer(services_.worker().pool());
  const bool restored = transport_.restore(std::exchange(moving.fds[0], -1), in);
  if (!restored || version > static_cast<uint8_t>(Version::kHttp2)) return false;
  version_ = Version{version};
  if (version_ == Version::kHttp2 && !codec) return false;
  if (!read_tunnels(static_cast<Http2Codec*>(codec.get()), in, moving)) return false;
  if (codec) speak(std::move(codec));
  if (version_ == Version::kUnknown) beginning_ = make_in_chunk<Beginning>(services_.worker().pool());
  arm_timer(now + kQuietAfterMoveMs);
  transport_.start_reading();
  if (!late.empty()) on_data(transport_, std::move(late));
  return true;
}

// The tunnels through the streams of `codec`; null: there are none.
bool HttpSession::read_tunnels(Http2Codec* codec, StateReader& in, MovingSession& moving) {
  const std::vector<HttpStream*> streams = codec ? codec->take_streams() : std::vector<HttpStream*>();
  bool good = in.u16() == streams.size() && moving.endpoints.size() == streams.size();
  std::vector<StreamTunnel*> tunnels;
  for (size_t i = 0; i < streams.size() && good; ++i) {
    const MovingSession::Endpoint& names = moving.endpoints[i];
    const auto found = find_endpoint(acceptor_->upstreams(), names.upstream, names.address);
    good = found.has_value();
    if (!good) break;
    tunnels.push_back(new StreamTunnel(*this, *streams[i], acceptor_->upstreams()[found->upstream], found->slot));
    good = tunnels.back()->read_state(std::exchange(moving.fds[1 + i], -1), in);
  }
  good = good && in.done();
  for (StreamTunnel* const tunnel : tunnels) good ? tunnel->start() : tunnel->abandon();
  return good;
}

}  // namespace sluice
