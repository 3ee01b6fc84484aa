// Output of streams: heads go out at once, bodies as windows and priorities permit.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "proxy/http/h2/http2_codec.h"

namespace sluice {
namespace {

// Room for the headers of DATA frames: slices of one chunk, interleaved with the windows of payload.
class FrameHeaders {
 public:
  explicit FrameHeaders(ChunkPool& pool) : pool_(pool) {}

  Lease make(const Http2FrameHeader& header) {
    if (room_.size() < Http2FrameHeader::kBytes) {
      room_ = Lease(ChunkRef::take(pool_.get_metadata(next_bytes_)), 0, 0);
      room_.grow_back(next_bytes_);
      next_bytes_ = kMoreBytes;
    }
    Lease rest = room_.split_off(Http2FrameHeader::kBytes);
    Lease made = std::exchange(room_, std::move(rest));
    header.write(made.data());
    return made;
  }

 private:
  static constexpr size_t kMoreBytes = 256;
  ChunkPool& pool_;
  Lease room_;
  size_t next_bytes_ = 64;  // Usually there are few.
};

// Counted as in RFC 9113 section 6.5.2.
uint64_t list_bytes(const Head& head) {
  constexpr uint64_t kOverhead = 32;
  uint64_t bytes = 0;
  const auto add = [&bytes](size_t name, size_t value) { bytes += name + value + kOverhead; };
  add(std::string_view(":method").size(), head.method().size());
  add(std::string_view(":authority").size(), head.authority().size());
  add(std::string_view(":scheme").size(), head.scheme().size());
  add(std::string_view(":path").size(), head.path().size());
  if (!head.protocol().empty()) add(std::string_view(":protocol").size(), head.protocol().size());
  for (const Fields::Field field : head.fields) add(field.name.size(), field.value.size());
  return bytes;
}

}  // namespace

void Http2Codec::send_head(Http2Stream& stream, const Head& head, bool end) {
  if (stream.closed()) return;
  SLUICE_DCHECK(!stream.queued_end_ && !stream.sent_head_ && is_server() == (head.status != 0));
  if (is_server()) {
    const bool informational = head.status < 200;
    SLUICE_DCHECK(!informational || !end);
    stream.sent_head_ = !informational;
    if (!informational) {
      Http2Priority priority = stream.priority_;
      priority.parse(head.fields.value("priority"));  // A server knows its responses best: RFC 9218 section 8.
      schedule_.change(stream, priority);
    }
  } else {
    const bool tunnel = !head.protocol().empty();
    if (draining() || next_id_ > kHttp2MaxStream || (tunnel && !peer_takes_protocols_)) {
      return refuse_head(stream, ResetReason::kRefused);
    }
    // Some peers end the whole connection for it, and with it other streams.
    if (peer_header_list_ != UINT32_MAX && list_bytes(head) > peer_header_list_) {
      return refuse_head(stream, ResetReason::kUnsendable);
    }
    table_.erase(stream);
    stream.id_ = next_id_;
    next_id_ += 2;
    table_.insert(shared_.pool, stream);
    stream.sent_head_ = true;
    stream.tunnel_ = tunnel;
    stream.connect_ = tunnel || head.method() == "CONNECT";
    stream.head_request_ = head.method() == "HEAD";
    abuse_.stream_opened(limits());
  }
  encoder_.encode_head(shared_.pool, head, stream.id_, end, control_);
  queued_frame();
  if (!end || stream.closed()) return;
  stream.queued_end_ = true;
  sent_end(stream);
}

// Refuses a head on a client. The peer never learns of the stream.
void Http2Codec::refuse_head(Http2Stream& stream, ResetReason reason) {
  stream.reset_ = true;
  close(stream);
  stream.notify_reset_ = true;
  stream.pending_reason_ = reason;
  notify_later(stream);
}

void Http2Codec::send_body(Http2Stream& stream, Buffer&& body, bool end) {
  if (stream.closed()) return body.clear();
  SLUICE_DCHECK(stream.sent_head_ && !stream.queued_end_);
  stream.queue_.append(std::move(body));
  stream.queued_end_ = end;
  if (!stream.queue_.empty()) return schedule(stream);
  if (end) send_end(stream, control_);
}

void Http2Codec::send_trailers(Http2Stream& stream, const Fields& trailers) {
  if (stream.closed()) return;
  SLUICE_DCHECK(stream.sent_head_ && !stream.queued_end_);
  stream.queued_end_ = true;
  if (stream.queue_.empty()) {
    if (trailers.empty()) return send_end(stream, control_);
    encoder_.encode_trailers(shared_.pool, trailers, stream.id_, control_);
    queued_frame();
    if (!stream.closed()) sent_end(stream);
    return;
  }
  stream.queued_trailers_ = !trailers.empty();
  for (const Fields::Field field : trailers) {
    const bool added = stream.trailers_.add(shared_.pool, field.name, field.value, field.traits);
    SLUICE_CHECK(added);  // They already fit into one Fields object.
  }
}

void Http2Codec::send_end(Http2Stream& stream, Buffer& to) {
  append_frame(shared_.pool, to, {.flags = Http2FrameHeader::kEndStream, .stream = stream.id_}, {});
  sent_end(stream);
}

void Http2Codec::sent_end(Http2Stream& stream) {
  stream.sent_end_ = true;
  close_if_ended(stream);
}

void Http2Codec::schedule(Http2Stream& stream) {
  if (!stream.closed() && !stream.queue_.empty() && stream.send_window_ > 0) {
    schedule_.add(stream);
  } else {
    schedule_.remove(stream);
  }
}

void Http2Codec::flush(Buffer& out) {
  SLUICE_CHECK(busy_ == 0);
  Busy busy(*this);
  out.append(std::move(control_));
  control_frames_ = 0;
  flush_data(out);
  notify_receivers();
}

// Precondition: control_ is empty. It stays empty, because trailers are encoded directly into `out`.
void Http2Codec::flush_data(Buffer& out) {
  FrameHeaders headers(shared_.pool);
  size_t left = limits().flush_bytes;
  while (left > 0 && send_window_ > 0 && !schedule_.empty()) {
    Http2Stream& stream = schedule_.front();
    const int64_t window = std::min<int64_t>(stream.send_window_, send_window_);
    const size_t size = std::min({stream.queue_.size(), static_cast<size_t>(window), size_t{kHttp2FrameBytes}, left});
    const bool last = size == stream.queue_.size();
    const bool end = last && stream.queued_end_ && !stream.queued_trailers_;
    out.append(headers.make({.length = static_cast<uint32_t>(size),
                             .flags = end ? Http2FrameHeader::kEndStream : uint8_t{0},
                             .stream = stream.id_}));
    out.append(last ? std::move(stream.queue_) : stream.queue_.split_front(size));
    stream.send_window_ -= static_cast<int32_t>(size);
    send_window_ -= static_cast<int64_t>(size);
    body_bytes_sent_ += static_cast<uint32_t>(size);
    left -= size;
    abuse_.data_sent(limits());
    stream.notify_drained_ = true;
    notify_later(stream);
    if (!last) {
      schedule_.pass_turn(stream);
      schedule(stream);
      continue;
    }
    schedule_.remove(stream);
    if (stream.queued_trailers_) {
      encoder_.encode_trailers(shared_.pool, stream.trailers_, stream.id_, out);
      stream.trailers_.clear();
      sent_end(stream);
    } else if (end) {
      sent_end(stream);
    }
  }
}

bool Http2Codec::waits_for_window() const {
  bool waits = false;
  table_.for_each([&](const Http2Stream& stream) { waits = waits || !stream.queue_.empty(); });
  return waits && (schedule_.empty() || send_window_ <= 0);
}

}  // namespace sluice
