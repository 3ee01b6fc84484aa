// The state of an HTTP/2 connection whose streams are all in the middle of their messages, with both heads sent, so
// that another process can continue it; and the packed state of one that is idle.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "alts_like/record_state.h"
#include "proxy/http/h2/http2_codec.h"

namespace sluice {

namespace {

constexpr size_t kMaxMovedStreams = 10'000;
// What may have arrived and is not read: a frame that is not complete, or what hold_requests() holds.
constexpr size_t kMaxMovedInputBytes = size_t{1} << 20;

enum StreamFlag : uint8_t {
  kTunnel = 1,
  kConnect = 2,
  kReceivedEnd = 4,
  kQueuedEnd = 8,
  kSentEnd = 16,
  kNoContent = 32,
};

}  // namespace

// Whether the response has begun and has not ended. The request may have ended.
bool Http2Codec::is_mid_message(const Http2Stream& stream) const {
  const bool response_ended = is_server() ? stream.queued_end_ : stream.received_end_;
  return stream.receiver_ && stream.sent_head_ && stream.received_head_ && !response_ended &&
         !stream.queued_trailers_ && !stream.closed();
}

bool Http2Codec::can_move() const {
  bool streams_can = true;
  table_.for_each([&](const Http2Stream& stream) { streams_can = streams_can && is_mid_message(stream); });
  return streams_can && table_.size() <= kMaxMovedStreams && status_ == Status::kOpen && drain_ == Drain::kNo &&
         !peer_draining_ && !peer_ended_ && greeted_ && preface_left_ == 0 && busy_ == 0 && held_streams_ == 0 &&
         !dead_ && block_stream_ == 0 && gathered_stream_ == 0 && !input_waits_;
}

bool Http2Codec::can_pack() const {
  return is_server() && table_.size() == 0 && !first_pending_ && partial_.empty() && control_.empty() && !in_data_ &&
         !holds_requests_ && can_move();
}

IdleHttp2Connection Http2Codec::pack() {
  park();
  return {*this, encoder_.table_bytes(), decoder_.parked_block()};
}

Http2Codec::Http2Codec(const Shared& shared, Acceptor* acceptor, const IdleHttp2Connection& idle)
    : Http2ConnectionState(idle.state()), shared_(shared), acceptor_(acceptor), greeted_(true) {
  encoder_.restore(idle.encoder_table_bytes());
  decoder_.restore_parked(shared.pool, idle.table());
}

size_t Http2Codec::queued() const {
  size_t bytes = 0;
  table_.for_each([&](const Http2Stream& stream) { bytes += stream.queue_.size(); });
  return bytes;
}

// By their ids, so that both processes have the same order.
std::vector<Http2Stream*> Http2Codec::streams_in_order() const {
  std::vector<Http2Stream*> streams;
  table_.for_each([&](Http2Stream& stream) { streams.push_back(&stream); });
  std::ranges::sort(streams, {}, &Http2Stream::id);
  return streams;
}

std::vector<StreamReceiver*> Http2Codec::receivers() const {
  std::vector<StreamReceiver*> receivers;
  for (const Http2Stream* stream : streams_in_order()) receivers.push_back(stream->receiver_);
  return receivers;
}

std::vector<HttpStream*> Http2Codec::take_streams() const {
  const std::vector<Http2Stream*> streams = streams_in_order();
  return {streams.begin(), streams.end()};
}

void Http2Codec::write_state(StateWriter& out) {
  park();
  out.u8(is_server());
  // Our settings, as announced.
  out.u32(limits().streams);
  out.u32(limits().stream_window_bytes);
  out.u32(limits().header_list_bytes);
  out.u32(limits().connection_window_bytes);
  out.u8(acknowledged_);
  // The peer's settings.
  out.u32(peer_stream_window_);
  out.u32(peer_streams_);
  out.u32(peer_header_list_);
  out.u8(peer_takes_protocols_);
  out.u32(encoder_.table_bytes());

  out.u64(static_cast<uint64_t>(send_window_));
  out.u64(static_cast<uint64_t>(receive_window_));
  out.u32(credit_);
  out.u32(is_server() ? last_peer_id_ : next_id_);
  out.u32(requests_);
  out.u32(body_bytes_sent_);
  for (const uint32_t id : ended_) out.u32(id);
  out.u8(next_ended_);
  const std::span<const std::byte> table = decoder_.parked_block();
  out.u32(static_cast<uint32_t>(table.size()));
  out.bytes({reinterpret_cast<const uint8_t*>(table.data()), table.size()});
  out.buffer(partial_);
  // The DATA frame that has begun.
  out.u8(in_data_);
  out.u8(data_end_);
  out.u32(data_stream_);
  out.u32(data_left_);
  out.u16(padding_left_);

  const std::vector<Http2Stream*> streams = streams_in_order();
  out.u16(static_cast<uint16_t>(streams.size()));
  for (const Http2Stream* stream : streams) {
    out.u32(stream->id_);
    out.u8(static_cast<uint8_t>((stream->tunnel_ ? kTunnel : 0) | (stream->connect_ ? kConnect : 0) |
                                (stream->received_end_ ? kReceivedEnd : 0) | (stream->queued_end_ ? kQueuedEnd : 0) |
                                (stream->sent_end_ ? kSentEnd : 0) | (stream->no_content_ ? kNoContent : 0)));
    out.u64(stream->content_left_);
    out.u8(stream->priority_.urgency);
    out.u8(stream->priority_.incremental);
    out.u32(static_cast<uint32_t>(stream->send_window_));
    out.u32(static_cast<uint32_t>(stream->receive_window_));
    out.u32(stream->credit_);
    out.u32(stream->withheld_);
    out.buffer(stream->queue_);
  }
}

Http2Codec::Http2Codec(const Shared& shared, Acceptor* acceptor, Resumed)
    : Http2ConnectionState(shared.limits), shared_(shared), acceptor_(acceptor) {}

std::unique_ptr<Http2Codec> Http2Codec::resume(const Shared& shared, Acceptor* acceptor, StateReader& in) {
  std::unique_ptr<Http2Codec> codec(new Http2Codec(shared, acceptor, Resumed()));
  if (!codec->read_state(in)) return nullptr;
  return codec;
}

bool Http2Codec::read_stream(StateReader& in) {
  const uint32_t id = in.u32();
  const bool known = is_server() ? id <= last_peer_id_ : id < next_id_;
  if (!in.ok() || id % 2 == 0 || !known || table_.find(id)) return false;
  Http2Stream& stream = make_stream(nullptr);
  stream.id_ = id;
  const uint8_t flags = in.u8();
  stream.tunnel_ = (flags & kTunnel) != 0;
  stream.connect_ = (flags & kConnect) != 0;
  stream.received_end_ = (flags & kReceivedEnd) != 0;
  stream.queued_end_ = (flags & kQueuedEnd) != 0;
  stream.sent_end_ = (flags & kSentEnd) != 0;
  stream.no_content_ = (flags & kNoContent) != 0;
  stream.content_left_ = in.u64();
  stream.sent_head_ = stream.received_head_ = true;
  stream.priority_.urgency = in.u8() % Http2Priority::kLevels;
  stream.priority_.incremental = in.u8() != 0;
  stream.send_window_ = static_cast<int32_t>(in.u32());
  stream.receive_window_ = static_cast<int32_t>(in.u32());
  stream.credit_ = in.u32();
  stream.withheld_ = in.u32();
  stream.reading_ = false;
  stream.queue_ = in.buffer(shared_.pool);
  table_.insert(shared_.pool, stream);
  schedule(stream);
  const bool response_ended = is_server() ? stream.queued_end_ : stream.received_end_;
  // An end is sent with the last of the queue.
  const bool is_end_sent = stream.queued_end_ && stream.queue_.empty();
  const int64_t window = int64_t{stream.receive_window_} + stream.credit_ + stream.withheld_;
  return in.ok() && !response_ended && stream.sent_end_ == is_end_sent && stream.receive_window_ >= 0 &&
         window <= kHttp2MaxWindow;
}

bool Http2Codec::read_state(StateReader& in) {
  if ((in.u8() != 0) != is_server()) return false;
  const uint32_t streams = in.u32(), stream_window = in.u32(), header_list = in.u32(), connection_window = in.u32();
  acknowledged_ = in.u8() != 0;
  peer_stream_window_ = in.u32();
  peer_streams_ = in.u32();
  peer_header_list_ = in.u32();
  peer_takes_protocols_ = in.u8() != 0;
  encoder_.restore(in.u32());
  send_window_ = static_cast<int64_t>(in.u64());
  receive_window_ = static_cast<int64_t>(in.u64());
  credit_ = in.u32();
  (is_server() ? last_peer_id_ : next_id_) = in.u32();
  requests_ = in.u32();
  body_bytes_sent_ = in.u32();
  for (uint32_t& id : ended_) id = in.u32();
  next_ended_ = static_cast<uint8_t>(in.u8() % ended_.size());
  const std::span<const uint8_t> table = in.bytes(in.u32());
  if (!decoder_.restore(shared_.pool, std::as_bytes(table))) return false;
  partial_ = in.buffer(shared_.pool);
  in_data_ = in.u8() != 0;
  data_end_ = in.u8() != 0;
  data_stream_ = in.u32();
  data_left_ = in.u32();
  padding_left_ = in.u16();
  if (data_left_ > kHttp2FrameBytes || padding_left_ > UINT8_MAX) return false;
  for (uint16_t left = in.u16(); left > 0; --left) {
    if (!read_stream(in)) return false;
  }
  greeted_ = true;
  const bool sane = peer_stream_window_ <= kHttp2MaxWindow && last_peer_id_ <= kHttp2MaxStream && next_id_ % 2 == 1 &&
                    next_id_ <= kHttp2MaxStream + 2 && send_window_ <= int64_t{kHttp2MaxWindow} &&
                    send_window_ >= -int64_t{kHttp2MaxWindow} && receive_window_ <= int64_t{kHttp2MaxWindow} &&
                    receive_window_ >= 0 && partial_.size() <= kMaxMovedInputBytes;
  // The peer may use larger windows until it has acknowledged smaller ones.
  if (!in.ok() || !sane || limits().stream_window_bytes < stream_window) return false;
  if (streams != limits().streams || stream_window != limits().stream_window_bytes ||
      header_list != limits().header_list_bytes) {
    queue_settings();
    acknowledged_ = false;
  }
  if (limits().connection_window_bytes > connection_window) {
    const uint32_t more = limits().connection_window_bytes - connection_window;
    queue(Http2FrameType::kWindowUpdate, 0, more);
    receive_window_ += more;
  }
  return true;
}

}  // namespace sluice
