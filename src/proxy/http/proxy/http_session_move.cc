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
#include "proxy/listener/client_acceptor.h"
#include "proxy/listener/moving_session.h"

namespace sluice {

namespace {

// A session whose connection is not detached after this long continues, and is visited again later.
constexpr uint64_t kDetachTimeoutMs = 1000;
// A session that continues is checked after this long.
constexpr uint64_t kQuietAfterMoveMs = 1000;

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

// Whether it has no request, and nothing of one.
bool HttpSession::can_move() const {
  if (ending() || draining_ || stays_ || transport_.ended()) return false;
  if (beginning_) return !beginning_->setup;
  if (!codec_) return true;
  if (codec_->status() != HttpCodec::Status::kOpen || codec_->has_output() || codec_->streams() > 0) return false;
  return version_ == Version::kHttp1 ? static_cast<const Http1Server&>(*codec_).idle()
                                     : static_cast<const Http2Codec&>(*codec_).idle();
}

bool HttpSession::move_out() {
  if (moving_) return true;
  if (StreamReceiver* const tunnel = codec_ ? codec_->tunnel() : nullptr) return tunnel->move_out();
  if (!can_move()) return false;
  moving_ = make_in_chunk<Moving>(services_.worker().pool());
  arm_timer(services_.worker().now_ms() + kDetachTimeoutMs);
  transport_.detach();
  return true;
}

void HttpSession::on_detached(Transport& transport) { moving_ ? depart() : HttpConnection::on_detached(transport); }

void HttpSession::depart() {
  if (!acceptor_->moving_out() || !can_move()) return stay();
  const uint64_t now = services_.worker().now_ms();
  if (version_ == Version::kHttp1 && codec_) {
    requests_ = static_cast<const Http1Server&>(*codec_).requests();
    codec_.reset();
  }
  MovingSession moving;
  moving.kind = MovingSession::Kind::kHttp;
  moving.listener = acceptor_->listener().config->name;
  StateWriter out(moving.state);
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
  if (!transport_.write_state(out)) {
    count_end(SessionEnd::kNotResumed);
    moving_.reset();
    return reset();
  }
  moving.fds = {transport_.take()};
  moving_.reset();
  count_end(SessionEnd::kMoved);
  leave();
  acceptor_->departures().depart(services_.worker().index(), std::move(moving));
}

// Continues here, if it was about to move.
void HttpSession::stay() {
  keep_tunnel();
  if (!moving_) [[likely]]
    return;
  Buffer late = std::move(moving_->late);
  moving_.reset();
  transport_.reattach();
  arm_timer(services_.worker().now_ms() + kQuietAfterMoveMs);
  if (!late.empty()) on_data(transport_, std::move(late));
}

bool HttpSession::may_move_tunnel() const { return acceptor_->moving_out() && !stays_ && !ending(); }

void HttpSession::begin_moving_tunnel() {
  arm_timer(services_.worker().now_ms() + kDetachTimeoutMs);
  HttpConnection::begin_moving_tunnel();
}

void HttpSession::depart_with_tunnel(MovingSession moving) {
  moving.listener = acceptor_->listener().config->name;
  count_end(SessionEnd::kMoved);
  leave();
  acceptor_->departures().depart(services_.worker().index(), std::move(moving));
}

bool HttpSession::resume(ClientAcceptor& acceptor, HttpListener& listener, HttpServices& worker, MovingSession& moving,
                         bool stays) {
  if (moving.fds.size() != 1) return false;
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
  const std::vector<int> fds = moving.take_fds();
  const uint64_t now = services_.worker().now_ms();
  const uint8_t version = in.u8();
  requests_ = in.u32();
  started_ms_ = now - std::min(in.u64(), now);
  waits_since_ms_ = last_body_ms_ = now - std::min(in.u64(), now);
  client_ip_ = ClientIp(in.bytes(in.u8()));
  if (Source source; Source::from(client_ip_.bytes(), source)) source_place_ = acceptor_->take_source_place(source);
  agreed_ = read_agreement(in);
  CodecPointer codec;
  if (version == static_cast<uint8_t>(Version::kHttp2)) {
    codec_settings_ = listener_->codecs;
    codec.reset(Http2Codec::resume(codec_settings_->http2_shared, *this, in).release());
  }
  Buffer late = in.buffer(services_.worker().pool());
  const bool restored = transport_.restore(fds[0], in);
  if (!restored || !in.done() || version > static_cast<uint8_t>(Version::kHttp2)) return false;
  version_ = Version{version};
  if (version_ == Version::kHttp2 && !codec) return false;
  if (codec) speak(std::move(codec));
  if (version_ == Version::kUnknown) beginning_ = make_in_chunk<Beginning>(services_.worker().pool());
  arm_timer(now + kQuietAfterMoveMs);
  transport_.start_reading();
  if (!late.empty()) on_data(transport_, std::move(late));
  return true;
}

}  // namespace sluice
