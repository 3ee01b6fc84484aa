// Input of streams: heads, bodies, trailers.

#include <algorithm>
#include <array>
#include <utility>

#include "proxy/http/h2/http2_codec.h"
#include "proxy/http/message/http_date.h"

namespace sluice {

namespace {

// The largest piece of body to gather: no larger than the window that would describe it plus the framing that the other
// side adds.
constexpr size_t kTinyBytes = 64;

// What a head of a request takes of the turn's budget at least: to route a small request, and to end it once it is
// reset, takes about as long as to decode these bytes of heads.
constexpr uint32_t kLeastTurnBytes = 1024;

}  // namespace

void Http2Codec::take_headers(const Http2FrameHeader& header, Buffer&& payload) {
  if (header.stream == 0) return fail(Http2Error::kProtocolError, "HEADERS on stream 0");
  size_t padding = 0;
  if (header.has(Http2FrameHeader::kPadded)) {
    if (payload.empty()) return fail(Http2Error::kFrameSizeError, "HEADERS without their padding's length");
    std::array<std::byte, 1> scratch;
    padding = static_cast<size_t>(payload.fetch(1, scratch)[0]);
    payload.trim_front(1);
  }
  if (header.has(Http2FrameHeader::kPriority)) {
    constexpr size_t kPriorityBytes = 5;  // Ignored.
    if (payload.size() < kPriorityBytes) return fail(Http2Error::kFrameSizeError, "HEADERS without their priority");
    payload.trim_front(kPriorityBytes);
  }
  if (padding > payload.size()) return fail(Http2Error::kProtocolError, "HEADERS have too much padding");
  payload.truncate(payload.size() - padding);

  block_refused_ = false;
  const Http2HeaderBlock::Kind kind = block_kind(header);
  if (failed()) return;
  block_ = Http2HeaderBlock(kind, true);
  block_.expect(shared_.pool, payload.size());
  block_stream_ = header.stream;
  block_end_ = header.has(Http2FrameHeader::kEndStream);
  continuations_ = 0;
  take_fragment(header, payload);
}

// Determines what the block of a HEADERS frame is. Even a wrong block must be decoded, to keep the table in sync.
Http2HeaderBlock::Kind Http2Codec::block_kind(const Http2FrameHeader& header) {
  using Kind = Http2HeaderBlock::Kind;
  const uint32_t id = header.stream;
  if (Http2Stream* stream = table_.find(id)) {
    if (stream->closed()) {
      if (stream->reset_ && !stream->reset_by_peer_) {
        frame_on_closed();
      } else {
        fail(Http2Error::kStreamClosed, "HEADERS on a closed stream");
      }
      return Kind::kIgnored;
    }
    if (stream->received_end_) {
      stream_error(*stream, Http2Error::kStreamClosed, ResetReason::kMalformed,
                   "HEADERS behind the end of the request");
      return Kind::kIgnored;
    }
    if (!stream->received_head_) return Kind::kResponse;
    if (header.has(Http2FrameHeader::kEndStream)) return Kind::kTrailers;
    stream_error(*stream, Http2Error::kProtocolError, ResetReason::kMalformed, "trailers without END_STREAM");
    return Kind::kIgnored;
  }
  switch (closed_state(id)) {
    case Closed::kError:
      fail(Http2Error::kStreamClosed, "HEADERS on a closed stream");
      return Kind::kIgnored;
    case Closed::kLetPass:
      frame_on_closed();
      return Kind::kIgnored;
    case Closed::kIdle:
      break;
  }
  if (!is_server() || id % 2 == 0) {
    fail(Http2Error::kProtocolError, "HEADERS on a stream that the peer may not open");
    return Kind::kIgnored;
  }
  last_peer_id_ = id;
  if (id > last_accepted_id_) {  // It crossed with our GOAWAY, or the peer ignores that.
    glitch();
    return Kind::kIgnored;
  }
  // Streams that have ended for the peer but are not released yet still count (CVE-2023-44487).
  block_refused_ = streams_ >= limits().streams || streams_ + held_streams_ >= 2 * limits().streams;
  return block_refused_ ? Kind::kIgnored : Kind::kRequest;
}

void Http2Codec::take_fragment(const Http2FrameHeader& header, const Buffer& fragment) {
  const bool last = header.has(Http2FrameHeader::kEndHeaders);
  switch (decoder_.decode(shared_.pool, limits(), fragment, last, block_)) {
    case HpackDecoder::Status::kBroken:
      return fail(Http2Error::kCompressionError, "a header block cannot be decoded");
    case HpackDecoder::Status::kTooLarge:
      ++counters().over_header_block;
      return fail_calm("a header block is far too large");
    case HpackDecoder::Status::kGood:
      break;
  }
  if (last) take_block();
}

void Http2Codec::take_block() {
  const uint32_t id = std::exchange(block_stream_, 0);
  Http2HeaderBlock block = std::exchange(block_, Http2HeaderBlock());
  block.finish(shared_.pool);
  heads_taken_bytes_ += std::max(block.list_bytes(), is_server() ? kLeastTurnBytes : 0);
  Http2Stream* stream = table_.find(id);
  switch (block.kind()) {
    case Http2HeaderBlock::Kind::kIgnored:
      if (block_refused_) {
        ++counters().refused_streams;
        return refuse(id, Http2Error::kRefusedStream);
      }
      // Trailers may follow our reset, but a request may not reuse an old stream id.
      if (!stream && is_server() && id <= last_accepted_id_ && block.has_pseudo()) {
        fail(Http2Error::kProtocolError, "a stream id is not above the earlier ones");
      }
      return;
    case Http2HeaderBlock::Kind::kRequest:
      return take_request(id, block, block_end_);
    case Http2HeaderBlock::Kind::kResponse:
      if (stream && !stream->closed()) take_response(*stream, block, block_end_);
      return;
    case Http2HeaderBlock::Kind::kTrailers:
      if (stream && !stream->closed()) take_trailers(*stream, block);
      return;
  }
}

void Http2Codec::take_request(uint32_t id, Http2HeaderBlock& block, bool end) {
  const bool no_content = end && block.content_length() != 0 && block.content_length() != Http2HeaderBlock::kNoLength;
  if (block.verdict() == Http2HeaderBlock::Verdict::kTooLarge) return refuse_large_request(id, block, end);
  if (block.verdict() == Http2HeaderBlock::Verdict::kMalformed || no_content) {
    ++counters().malformed;
    report_refusal(id, block, block.error() ? block.error() : "a Content-Length without content", 0);
    return refuse(id, Http2Error::kProtocolError);
  }
  const size_t head_bytes = block.head().fields.held_bytes() + kStreamBytes;
  if (!acceptor_->admits(held_bytes(), head_bytes)) {
    ++counters().over_memory;
    report_refusal(id, block, kOverMemory, 0);
    return refuse(id, Http2Error::kRefusedStream);
  }
  Http2Stream& stream = make_stream(nullptr);
  stream.head_bytes_ = static_cast<uint32_t>(head_bytes);
  head_bytes_ += head_bytes;
  stream.id_ = id;
  stream.received_head_ = true;
  stream.received_end_ = end;
  stream.content_left_ = block.content_length();
  stream.connect_ = block.connect();
  stream.tunnel_ = !block.head().protocol().empty();
  if (block.priority().told) stream.priority_ = block.priority();
  table_.insert(shared_.pool, stream);
  abuse_.stream_opened(limits());
  count_request();

  StreamReceiver& receiver = acceptor_->on_stream(stream);
  if (stream.closed()) return;  // The acceptor reset or released it.
  stream.receiver_ = &receiver;
  receiver.on_head(stream, std::move(block.head()), end);
}

// A client may ignore the first GOAWAY and its PING. At most `streams` requests were in flight when it was sent.
void Http2Codec::count_request() {
  ++requests_;
  const uint32_t limit = limits().requests;
  if (limit == 0 || requests_ < limit || drain_ == Drain::kFinal) return;
  if (drain_ == Drain::kNo) return drain();
  if (requests_ - limit >= limits().streams) send_last_goaway();
}

void Http2Codec::report_refusal(uint32_t id, const Http2HeaderBlock& block, const char* rule, uint16_t status) {
  BrokenMessage message = broken(rule, id);
  message.status = status;
  message.add(block.head());
  acceptor_->on_refused(message);
}

// Responds with 431 and discards the rest of the request.
void Http2Codec::refuse_large_request(uint32_t id, Http2HeaderBlock& block, bool end) {
  ++counters().too_large;
  report_refusal(id, block, "the request's fields are too large", 431);
  Head head;
  head.status = 431;
  if (!head.fields.add(shared_.pool, "date", http_date())) head.fields.clear();
  encoder_.encode_head(shared_.pool, head, id, true, control_);
  queued_frame();
  if (end) return fail_calm(abuse_.reset(counters()));
  refuse(id, Http2Error::kNoError);
}

void Http2Codec::take_response(Http2Stream& stream, Http2HeaderBlock& block, bool end) {
  if (block.verdict() == Http2HeaderBlock::Verdict::kTooLarge) {
    ++counters().too_large;
    return stream_error(stream, Http2Error::kCancel, ResetReason::kTooLarge);
  }
  const uint16_t status = block.head().status;
  const bool informational = status < 200;
  bool malformed = block.verdict() != Http2HeaderBlock::Verdict::kGood || (informational && end);
  if (informational && ++stream.informational_ > limits().informational_heads) malformed = true;
  if (!malformed && !informational) {
    stream.no_content_ = stream.head_request_ || status == 204 || status == 304;
    const bool tunnel = stream.connect_ && status < 300;
    if (!stream.no_content_ && !tunnel) stream.content_left_ = block.content_length();
    malformed = end && stream.content_left_ != 0 && stream.content_left_ != Http2HeaderBlock::kNoLength;
  }
  if (malformed) return stream_error(stream, Http2Error::kProtocolError, ResetReason::kMalformed);
  stream.received_head_ = !informational;
  stream.received_end_ = end;
  stream.receiver_->on_head(stream, std::move(block.head()), end);
  close_if_ended(stream);
}

void Http2Codec::take_trailers(Http2Stream& stream, Http2HeaderBlock& block) {
  const bool too_large = block.verdict() == Http2HeaderBlock::Verdict::kTooLarge;
  if (too_large && is_server()) {
    ++counters().too_large;
    return stream_error(stream, Http2Error::kCancel, ResetReason::kTooLarge, "the request's trailers are too large");
  }
  const bool short_content = stream.content_left_ != 0 && stream.content_left_ != Http2HeaderBlock::kNoLength;
  if (block.verdict() == Http2HeaderBlock::Verdict::kMalformed || short_content) {
    return stream_error(stream, Http2Error::kProtocolError, ResetReason::kMalformed,
                        block.error() ? block.error() : "less DATA than Content-Length");
  }
  stream.received_end_ = true;
  if (too_large) {
    // A response is complete without its trailers, and a recipient may discard them (RFC 9110 section 6.5.1).
    ++counters().trailers_dropped;
    stream.receiver_->on_body(stream, Buffer(), true);
  } else {
    stream.receiver_->on_trailers(stream, std::move(block.head().fields));
  }
  close_if_ended(stream);
}

// Validates a DATA frame by its header, before any of it is delivered. The payload follows in partial_; of a padded
// frame at least the first byte, the padding length, is there.
void Http2Codec::begin_data(const Http2FrameHeader& header) {
  if (header.stream == 0) return fail(Http2Error::kProtocolError, "DATA on stream 0");
  receive_window_ -= header.length;
  if (receive_window_ < 0) return fail(Http2Error::kFlowControlError, "DATA beyond the connection's window");
  data_left_ = header.length;
  padding_left_ = 0;
  uint32_t overhead = 0;
  if (header.has(Http2FrameHeader::kPadded)) {
    if (header.length == 0) return fail(Http2Error::kFrameSizeError, "DATA without its padding's length");
    std::array<std::byte, 1> scratch;
    padding_left_ = static_cast<uint16_t>(partial_.fetch(1, scratch)[0]);
    partial_.trim_front(1);
    if (padding_left_ >= header.length) return fail(Http2Error::kProtocolError, "DATA has too much padding");
    overhead = uint32_t{1} + padding_left_;
    data_left_ -= overhead;
  }
  in_data_ = true;
  data_end_ = header.has(Http2FrameHeader::kEndStream);
  data_stream_ = 0;
  if (const char* error = abuse_.data(data_left_, data_end_, limits(), counters())) return fail_calm(error);

  Http2Stream* stream = table_.find(header.stream);
  if (!stream) {
    switch (closed_state(header.stream)) {
      case Closed::kIdle:
        return fail(Http2Error::kProtocolError, "DATA on an idle stream");
      case Closed::kError:
        return fail(Http2Error::kStreamClosed, "DATA on a closed stream");
      case Closed::kLetPass:
        frame_on_closed();
        return take_connection_credit(overhead);
    }
  }
  if (!expect_data(*stream, header.length)) return take_connection_credit(overhead);
  data_stream_ = header.stream;
  // Padding is never delivered, so it is credited at once.
  if (overhead > 0) take_credit(*stream, overhead);
  if (data_left_ == 0 && data_end_) {
    deliver_gathered();
    if (!stream->closed()) deliver(*stream, Buffer(), true);
  }
}

// Whether the stream accepts the DATA frame that has begun. If not, the stream was reset, or the connection failed.
bool Http2Codec::expect_data(Http2Stream& stream, uint32_t flow_bytes) {
  if (stream.closed()) {
    if (stream.reset_ && !stream.reset_by_peer_) {
      frame_on_closed();
    } else {
      fail(Http2Error::kStreamClosed, "DATA on a closed stream");
    }
    return false;
  }
  const auto refuse_with = [&](Http2Error code, const char* rule = nullptr) {
    stream_error(stream, code, ResetReason::kMalformed, rule);
    return false;
  };
  if (stream.received_end_) return refuse_with(Http2Error::kStreamClosed, "DATA behind the end of the request");
  if (!stream.received_head_) return refuse_with(Http2Error::kProtocolError);
  stream.receive_window_ -= static_cast<int32_t>(flow_bytes);
  if (stream.receive_window_ < 0) {
    return refuse_with(Http2Error::kFlowControlError, "DATA beyond the stream's window");
  }
  if (stream.no_content_ && data_left_ > 0) return refuse_with(Http2Error::kProtocolError);
  if (stream.content_left_ != Http2HeaderBlock::kNoLength) {
    if (data_left_ > stream.content_left_) {
      return refuse_with(Http2Error::kProtocolError, "more DATA than Content-Length");
    }
    stream.content_left_ -= data_left_;
    if (data_end_ && stream.content_left_ != 0) {
      return refuse_with(Http2Error::kProtocolError, "less DATA than Content-Length");
    }
  }
  return true;
}

// Delivers the available part of the DATA frame. Returns false when it needs more input.
bool Http2Codec::take_data() {
  if (data_left_ > 0) {
    if (partial_.empty()) return false;
    const size_t size = std::min<size_t>(partial_.size(), data_left_);
    Buffer piece = size == partial_.size() ? std::move(partial_) : partial_.split_front(size);
    data_left_ -= static_cast<uint32_t>(size);
    Http2Stream* stream = data_stream_ == 0 ? nullptr : table_.find(data_stream_);
    if (stream && !stream->closed()) {
      const bool end = data_left_ == 0 && data_end_;
      if (size <= kTinyBytes && !end) {
        gather(*stream, std::move(piece));
      } else {
        if (gathered_stream_ == stream->id_) {
          gathered_.append(std::move(piece));
          piece = std::move(gathered_);
          gathered_stream_ = 0;
        }
        deliver(*stream, std::move(piece), end);
      }
    } else {
      take_connection_credit(static_cast<uint32_t>(size));
    }
    return true;
  }
  const size_t size = std::min<size_t>(partial_.size(), padding_left_);
  partial_.trim_front(size);
  padding_left_ = static_cast<uint16_t>(padding_left_ - size);
  in_data_ = padding_left_ > 0;
  return !in_data_;
}

// Gathers pieces of body that are smaller than the window that describes them. Those of one receive() are delivered as
// one.
void Http2Codec::gather(Http2Stream& stream, Buffer&& body) {
  if (gathered_stream_ != stream.id_) deliver_gathered();
  if (stream.closed()) return take_connection_credit(static_cast<uint32_t>(body.size()));
  gathered_stream_ = stream.id_;
  gathered_.append_packed(shared_.pool, std::move(body));
}

void Http2Codec::deliver_gathered() {
  if (gathered_stream_ == 0) return;
  Http2Stream* stream = table_.find(std::exchange(gathered_stream_, 0));
  Buffer body = std::move(gathered_);
  if (stream && !stream->closed()) {
    deliver(*stream, std::move(body), false);
  } else {
    take_connection_credit(static_cast<uint32_t>(body.size()));
  }
}

void Http2Codec::deliver(Http2Stream& stream, Buffer&& body, bool end) {
  const auto size = static_cast<uint32_t>(body.size());
  stream.received_end_ = end;
  stream.withheld_ += size;
  stream.receiver_->on_body(stream, std::move(body), end);
  if (stream.reset_) return;  // The call reset the stream, and its credit is settled.
  if (stream.reading_) take_credit(stream, std::exchange(stream.withheld_, 0));
  close_if_ended(stream);
}

void Http2Codec::take_credit(Http2Stream& stream, uint32_t bytes) {
  take_connection_credit(bytes);
  stream.credit_ += bytes;
  // Half a window at a time: one WINDOW_UPDATE covers many frames, and the peer never waits for it.
  if (stream.received_end_ || stream.closed() || stream.credit_ == 0 ||
      stream.credit_ < (limits().stream_window_bytes + stream.window_growth_) / 2) {
    return;
  }
  grow_window(stream);
  stream.receive_window_ += static_cast<int32_t>(stream.credit_);
  queue(Http2FrameType::kWindowUpdate, stream.id_, std::exchange(stream.credit_, 0));
}

// A sender may send a window in each round trip. If half of it has arrived, and was passed on, in less than two round
// trips, the window may be what limits the rate, so it doubles. It ends at four times the bandwidth-delay product.
void Http2Codec::grow_window(Http2Stream& stream) {
  const uint32_t since_ms = now_ms_ - std::exchange(stream.credited_ms_, now_ms_);
  if (round_trip_ms_ == 0 || since_ms >= 2 * round_trip_ms_ || (shared_.scarce && *shared_.scarce)) return;
  const uint32_t room = limits().window_growth_bytes - std::min(window_growth_, limits().window_growth_bytes);
  const uint32_t more = std::min(room, limits().stream_window_bytes + stream.window_growth_);
  stream.window_growth_ += more;
  window_growth_ += more;
  stream.credit_ += more;
}

// While memory is short, the peer gets no more than the window with which connections begin. The rest of the credit is
// given back with the data that it sends in that window later.
void Http2Codec::give_scarce_credit() {
  if (receive_window_ > int64_t{kHttp2FirstWindow} / 2) return;
  const auto given = static_cast<uint32_t>(std::min<int64_t>(credit_, kHttp2FirstWindow - receive_window_));
  if (given == 0) return;
  credit_ -= given;
  receive_window_ += given;
  queue(Http2FrameType::kWindowUpdate, 0, given);
}

void Http2Codec::take_connection_credit(uint32_t bytes) {
  credit_ += bytes;
  if (shared_.scarce && *shared_.scarce) [[unlikely]] {
    if (!failed()) return give_scarce_credit();
  }
  if (failed() || credit_ < limits().connection_window_bytes / 2) return;
  receive_window_ += credit_;
  queue(Http2FrameType::kWindowUpdate, 0, std::exchange(credit_, 0));
}

void Http2Codec::take_reset(Http2Stream& stream, uint32_t error) {
  ++counters().resets_received;
  stream.reset_ = true;
  stream.reset_by_peer_ = true;
  close(stream);
  if (shared_.error_reader) shared_.error_reader->on_stream_reset(static_cast<Http2Error>(error));
  notify_reset(stream, reset_reason(error));
  if (is_server()) fail_calm(abuse_.reset(counters()));
}

}  // namespace sluice
