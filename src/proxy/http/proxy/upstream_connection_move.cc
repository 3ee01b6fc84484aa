// A connection to an endpoint that moves to another process: with a tunnel, or with all the streams of HTTP/2 on it.
//
// The state: the number of requests; the codec (Http2Codec::write_state); bytes that arrived last; the transport
// (Transport::write_state).

#include <utility>
#include <vector>

#include "alts_like/record_state.h"
#include "net/worker.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/movable_stream.h"
#include "proxy/http/proxy/moving_group.h"
#include "proxy/http/proxy/upstream_connection.h"
#include "proxy/http/proxy/upstream_pool.h"

namespace sluice {

namespace {

// The pause before the next attempt to move a connection whose streams could not all move.
constexpr uint64_t kRetryMoveMs = 2;

}  // namespace

StreamReceiver::Destination UpstreamConnection::destination() const {
  return {upstream_.config().name, upstream_.state().slots().text(endpoint_)};
}

MovingSession::Endpoint UpstreamConnection::endpoint_names() const {
  return {upstream_.config().name, upstream_.state().address(endpoint_).text()};
}

// ---- With a tunnel ----

void UpstreamConnection::begin_moving() {
  moving_ = true;
  transport_.detach();
}

void UpstreamConnection::stay() {
  if (!std::exchange(moving_, false)) return;
  transport_.reattach();
  wake();
}

// Null if it has ended.
MovableStream* UpstreamConnection::moving_tunnel() const {
  const std::vector<StreamReceiver*> receivers = moving_ ? codec_->receivers() : std::vector<StreamReceiver*>();
  return receivers.empty() ? nullptr : receivers[0]->movable_stream();
}

void UpstreamConnection::on_detached(Transport&) {
  if (group_) return group_->continue_moving();
  if (MovableStream* const tunnel = moving_tunnel()) tunnel->on_endpoint_detached();
}

// Before the connection ends, or may end.
void UpstreamConnection::stop_moving() {
  if (group_) [[unlikely]]
    return group_->stay();
  if (!moving_) [[likely]]
    return;
  if (MovableStream* const tunnel = moving_tunnel()) tunnel->on_endpoint_ends();
}

// ---- With all of its streams ----

bool UpstreamConnection::can_move() const {
  return state_ == State::kReady && !ending() && !transport_.ended() && codec_->can_move();
}

void UpstreamConnection::stop_sharing() {
  leave_lists();
  draining_ = true;
  next_move_ms_ = services_.worker().now_ms() + kRetryMoveMs;
}

bool UpstreamConnection::may_try_to_move() const { return services_.worker().now_ms() >= next_move_ms_; }

void UpstreamConnection::begin_moving(MovingGroup& group) { group_ = &group; }

void UpstreamConnection::continue_here() {
  if (!std::exchange(group_, nullptr) || ending()) return;
  transport_.reattach();
  wake();
  if (Buffer late = std::move(late_); !late.empty()) on_data(transport_, std::move(late));
}

bool UpstreamConnection::write_state(StateWriter& out) {
  out.u32(requests_);
  static_cast<Http2Codec&>(*codec_).write_state(out);
  out.buffer(late_);
  late_.clear();
  return transport_.write_state(out);
}

int UpstreamConnection::take() {
  group_ = nullptr;
  const int fd = transport_.take();
  leave();
  return fd;
}

void UpstreamConnection::abandon() {
  group_ = nullptr;
  reset();
}

bool UpstreamConnection::read_state(int fd, StateReader& in, CodecPointer& codec, Buffer& late) {
  requests_ = in.u32();
  codec.reset(Http2Codec::resume(upstream_.http2_shared_, nullptr, in).release());
  late = in.buffer(services_.worker().pool());
  const bool restored = transport_.restore(fd, in);
  return restored && codec;
}

void UpstreamConnection::start(CodecPointer codec) {
  speak(std::move(codec));
  state_ = State::kReady;
  last_received_ms_ = services_.worker().now_ms();
  const uint32_t limit = upstream_.config().pool.max_requests;
  draining_ = limit != 0 && requests_ >= limit;
  upstream_.endpoints_[endpoint_].streams = static_cast<Http2Codec&>(*codec_).peer_streams();
  transport_.start_reading();
}

void UpstreamConnection::read_late(Buffer&& late) {
  if (!late.empty()) on_data(transport_, std::move(late));
}

}  // namespace sluice
