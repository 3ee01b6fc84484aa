// The state of an idle HTTP/2 server connection, so that another process can continue it.

#include <span>
#include <utility>

#include "alts_like/record_state.h"
#include "proxy/http/h2/http2_codec.h"

namespace sluice {

bool Http2Codec::idle() const {
  return is_server() && status_ == Status::kOpen && drain_ == Drain::kNo && !peer_draining_ && !peer_ended_ &&
         greeted_ && preface_left_ == 0 && busy_ == 0 && streams_ == 0 && held_streams_ == 0 && table_.size() == 0 &&
         !first_pending_ && !dead_ && control_.empty() && block_stream_ == 0 && !in_data_ && gathered_stream_ == 0 &&
         !input_waits_;
}

void Http2Codec::write_state(StateWriter& out) {
  park();
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
  out.u32(last_peer_id_);
  out.u32(requests_);
  out.u32(body_bytes_sent_);
  for (const uint32_t id : ended_) out.u32(id);
  out.u8(next_ended_);
  const std::span<const std::byte> table = decoder_.parked_block();
  out.u32(static_cast<uint32_t>(table.size()));
  out.bytes({reinterpret_cast<const uint8_t*>(table.data()), table.size()});
  out.buffer(partial_);
}

Http2Codec::Http2Codec(const Shared& shared, Acceptor& acceptor, Resumed)
    : shared_(shared), acceptor_(&acceptor), abuse_(shared.limits) {}

std::unique_ptr<Http2Codec> Http2Codec::resume(const Shared& shared, Acceptor& acceptor, StateReader& in) {
  std::unique_ptr<Http2Codec> codec(new Http2Codec(shared, acceptor, Resumed()));
  if (!codec->read_state(in)) return nullptr;
  return codec;
}

bool Http2Codec::read_state(StateReader& in) {
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
  last_peer_id_ = in.u32();
  requests_ = in.u32();
  body_bytes_sent_ = in.u32();
  for (uint32_t& id : ended_) id = in.u32();
  next_ended_ = static_cast<uint8_t>(in.u8() % ended_.size());
  const std::span<const uint8_t> table = in.bytes(in.u32());
  if (!decoder_.restore(shared_.pool, std::as_bytes(table))) return false;
  partial_ = in.buffer(shared_.pool);
  greeted_ = true;
  const bool sane = peer_stream_window_ <= kHttp2MaxWindow && last_peer_id_ <= kHttp2MaxStream &&
                    send_window_ <= int64_t{kHttp2MaxWindow} && send_window_ >= -int64_t{kHttp2MaxWindow} &&
                    receive_window_ <= int64_t{kHttp2MaxWindow} && receive_window_ >= 0 &&
                    partial_.size() <= kHttp2FrameBytes + Http2FrameHeader::kBytes;
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
