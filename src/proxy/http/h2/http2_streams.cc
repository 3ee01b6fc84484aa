// The life cycle of streams: RFC 9113 section 5.1.

#include <algorithm>
#include <new>
#include <utility>

#include "proxy/http/h2/http2_codec.h"

namespace sluice {

void Http2Stream::send_head(const Head& head, bool end) { connection_.send_head(*this, head, end); }
void Http2Stream::send_body(Buffer&& body, bool end) { connection_.send_body(*this, std::move(body), end); }
void Http2Stream::send_trailers(const Fields& trailers) { connection_.send_trailers(*this, trailers); }
void Http2Stream::reset(ResetReason reason) { connection_.reset(*this, reason); }
void Http2Stream::set_reading(bool reading) { connection_.set_reading(*this, reading); }
void Http2Stream::release() { connection_.release(*this); }

Http2Stream& Http2Codec::make_stream(StreamReceiver* receiver) {
  static_assert(sizeof(Http2Stream) <= 256, "of a small tier");
  Chunk* chunk = shared_.pool.get_metadata(sizeof(Http2Stream));
  auto* stream = new (chunk->data) Http2Stream(*this, receiver);
  stream->chunk_ = chunk;
  stream->send_window_ = static_cast<int32_t>(peer_stream_window_);
  const uint32_t window =
      acknowledged_ ? limits().stream_window_bytes : std::max(limits().stream_window_bytes, kHttp2FirstWindow);
  stream->receive_window_ = static_cast<int32_t>(window);
  stream->credited_ms_ = now_ms_;
  ++streams_;
  ++counters().streams;
  return *stream;
}

HttpStream* Http2Codec::open_stream(StreamReceiver& receiver) {
  SLUICE_CHECK(!is_server());
  if (failed() || draining() || peer_ended_ || next_id_ > kHttp2MaxStream) return nullptr;
  if (streams_ >= std::min(peer_streams_, limits().streams)) return nullptr;
  // Short-lived requests would otherwise overflow the control queue, which would end all other streams.
  if (control_frames_ > limits().queued_control_frames / 2 || control_.size() > limits().queued_control_bytes / 2) {
    return nullptr;
  }
  Http2Stream& stream = make_stream(&receiver);
  table_.insert(shared_.pool, stream);  // Under id 0 until it sends its head.
  return &stream;
}

// The state of a stream id that is not in the table.
Http2Codec::Closed Http2Codec::closed_state(uint32_t id) const {
  const bool ours = (id % 2 == 1) != is_server();
  const bool idle = ours ? is_server() || id >= next_id_ : is_server() ? id > last_peer_id_ : true;
  if (idle) return Closed::kIdle;
  return std::ranges::find(ended_, id) != ended_.end() ? Closed::kError : Closed::kLetPass;
}

// Handles a peer's error that ends one stream. `rule`: of a request, which it breaks.
void Http2Codec::stream_error(Http2Stream& stream, Http2Error code, ResetReason reason, const char* rule) {
  if (code != Http2Error::kCancel) ++counters().malformed;
  if (is_server() && rule && stream.receiver_) stream.receiver_->on_broken(stream, broken(rule, stream.id_));
  reset_stream(stream, code);
  notify_reset(stream, reason);
  if (!is_server()) return;
  reply();
  fail_calm(abuse_.reset(counters()));  // CVE-2025-8671.
}

// Resets a peer's stream for which we have no Http2Stream.
void Http2Codec::refuse(uint32_t id, Http2Error code) {
  ++counters().resets_sent;
  queue(Http2FrameType::kRstStream, id, static_cast<uint32_t>(code));
  reply();
  fail_calm(abuse_.reset(counters()));
}

void Http2Codec::reset_stream(Http2Stream& stream, Http2Error code) {
  if (stream.id_ != 0) {
    ++counters().resets_sent;
    queue(Http2FrameType::kRstStream, stream.id_, static_cast<uint32_t>(code));
  }
  if (stream.closed()) return;  // The control queue overflowed, and the connection has failed.
  stream.reset_ = true;
  close(stream);
}

void Http2Codec::reset(Http2Stream& stream, ResetReason reason) {
  stream.notify_reset_ = stream.notify_drained_ = false;
  if (stream.closed()) return;
  // A complete response ends the request without an error: RFC 9113 section 8.1.
  const bool done = is_server() && stream.sent_end_;
  reset_stream(stream, done ? Http2Error::kNoError : http2_error(reason, stream.tunnel_));
  stream.notify_reset_ = false;
}

void Http2Codec::close_if_ended(Http2Stream& stream) {
  if (stream.counted_ && stream.closed()) close(stream);
}

// Precondition: the stream has just become closed().
void Http2Codec::close(Http2Stream& stream) {
  SLUICE_DCHECK(stream.counted_ && (stream.closed()));
  stream.counted_ = false;
  --streams_;
  ++held_streams_;
  schedule_.remove(stream);
  stream.queue_.clear();
  stream.trailers_.clear();
  take_connection_credit(std::exchange(stream.withheld_, 0));
  window_growth_ -= std::exchange(stream.window_growth_, 0);
  if (!stream.reset_) {
    ++counters().completed;
    abuse_.stream_completed(limits());
  }
  if (!stream.reset_ || stream.reset_by_peer_) {
    ended_[next_ended_] = stream.id_;
    next_ended_ = static_cast<uint8_t>((next_ended_ + 1) % ended_.size());
  }
}

void Http2Codec::release(Http2Stream& stream) {
  SLUICE_CHECK(!stream.retired_);
  close_if_ended(stream);  // The receiver may release it from within the call that delivers the end.
  reset(stream, ResetReason::kCancelled);
  stream.receiver_ = nullptr;
  stream.notify_drained_ = false;
  stream.retired_ = true;
  --held_streams_;
  table_.erase(stream);
  if (stream.in_pending_list_) return;  // notify_receivers() retires it.
  if (busy_ == 0) return free_stream(stream);
  stream.next_pending_ = std::exchange(dead_, &stream);
}

void Http2Codec::free_stream(Http2Stream& stream) {
  head_bytes_ -= stream.head_bytes_;
  const ChunkRef chunk = ChunkRef::take(stream.chunk_);
  stream.~Http2Stream();
}

void Http2Codec::free_dead() {
  while (dead_) free_stream(*std::exchange(dead_, dead_->next_pending_));
}

void Http2Codec::set_reading(Http2Stream& stream, bool reading) {
  stream.reading_ = reading;
  if (reading && !stream.closed()) take_credit(stream, std::exchange(stream.withheld_, 0));
}

void Http2Codec::notify_reset(Http2Stream& stream, ResetReason reason) {
  stream.notify_drained_ = false;
  if (stream.receiver_) stream.receiver_->on_reset(stream, reason);
}

void Http2Codec::notify_later(Http2Stream& stream) {
  if (stream.in_pending_list_) return;
  stream.in_pending_list_ = true;
  stream.next_pending_ = std::exchange(first_pending_, &stream);
}

// Streams that are added meanwhile wait for the next call.
void Http2Codec::notify_receivers() {
  Http2Stream* next = std::exchange(first_pending_, nullptr);
  while (next) {
    Http2Stream& stream = *std::exchange(next, next->next_pending_);
    stream.in_pending_list_ = false;
    const bool drained = stream.notify_drained_;
    const bool was_reset = stream.notify_reset_;
    stream.notify_drained_ = stream.notify_reset_ = false;
    if (stream.retired_) {
      stream.next_pending_ = std::exchange(dead_, &stream);
    } else if (was_reset) {
      stream.receiver_->on_reset(stream, stream.pending_reason_);
    } else if (drained) {
      stream.receiver_->on_drained(stream);
    }
  }
}

}  // namespace sluice
