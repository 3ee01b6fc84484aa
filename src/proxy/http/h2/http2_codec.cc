#include "proxy/http/h2/http2_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace sluice {

namespace {

// The most bytes of decoded heads per receive(), 64 requests of the usual size: a few bytes of HPACK can expand to
// many, and other connections of the loop wait meanwhile.
constexpr uint32_t kTurnHeadBytes = 64 * 1024;

// Some heads of the usual size.
constexpr size_t kLeastHeadBytes = size_t{4} * 1024;

}  // namespace

Http2Codec::Http2Codec(const Shared& shared, Acceptor* acceptor)
    : Http2ConnectionState(shared.limits), shared_(shared), acceptor_(acceptor) {
  SLUICE_CHECK(limits().connection_window_bytes >= kHttp2FirstWindow);
  if (is_server()) preface_left_ = static_cast<uint8_t>(kHttp2Preface.size());
  greet();
}

Http2Codec::~Http2Codec() {
  SLUICE_CHECK(busy_ == 0);
  while (first_pending_) {  // Retired streams with pending notifications are in no other list.
    Http2Stream* stream = std::exchange(first_pending_, first_pending_->next_pending_);
    if (stream->retired_) free_stream(*stream);
  }
  table_.for_each([this](Http2Stream& stream) { free_stream(stream); });
}

void Http2Codec::greet() {
  if (!is_server()) {
    Lease room = frame_room(shared_.pool, control_, kHttp2Preface.size());
    std::memcpy(room.data(), kHttp2Preface.data(), kHttp2Preface.size());
    control_.append(std::move(room));
  }
  queue_settings();
  const uint32_t more = limits().connection_window_bytes - kHttp2FirstWindow;
  if (more == 0) return;
  queue(Http2FrameType::kWindowUpdate, 0, more);
  receive_window_ += more;
}

void Http2Codec::queue_settings() {
  Http2SettingsList settings;
  if (is_server()) {
    settings.add(Http2Setting::kMaxConcurrentStreams, limits().streams);
    settings.add(Http2Setting::kEnableConnectProtocol, 1);
  } else {
    settings.add(Http2Setting::kEnablePush, 0);
  }
  settings.add(Http2Setting::kHeaderTableSize, kHpackTableBytes);
  settings.add(Http2Setting::kInitialWindowSize, limits().stream_window_bytes);
  settings.add(Http2Setting::kMaxHeaderListSize, limits().header_list_bytes);
  settings.add(Http2Setting::kNoRfc7540Priorities, 1);
  queue({.type = Http2FrameType::kSettings}, settings.bytes());
}

HttpCodec::Status Http2Codec::status() const {
  if (failed()) return Status::kFailed;
  const bool none_follows = peer_ended_ || drain_ == Drain::kFinal || peer_draining_ || next_id_ > kHttp2MaxStream;
  return none_follows && streams_ == 0 ? Status::kEnded : Status::kOpen;
}

HttpCodec::Status Http2Codec::receive(Buffer&& bytes) {
  SLUICE_CHECK(busy_ == 0);
  if (failed() || peer_ended_) {
    bytes.clear();
    return status();
  }
  const size_t head_limit = head_limit_bytes(/*resumed=*/bytes.empty());
  partial_.append(std::move(bytes));
  heads_taken_bytes_ = 0;
  {
    Busy busy(*this);
    if (preface_left_ == 0 || take_preface()) {
      while (!failed() && heads_taken_bytes_ < head_limit && (in_data_ ? take_data() : take_frame())) {
      }
      deliver_gathered();
    }
    notify_receivers();
  }
  in_frame_ = false;
  input_waits_ = !failed() && heads_taken_bytes_ >= head_limit && !partial_.empty();
  if (shared_.head_budget) (void)shared_.head_budget->take(heads_taken_bytes_);
  if (failed()) partial_.clear();
  // Bytes that trickle in must not pin a chunk each.
  constexpr size_t kWindows = 16;
  if (partial_.window_count() > kWindows) partial_.compact(shared_.pool);
  return status();
}

// Once the connections together have used up the turn's budget, new connections and those with held-back input wait
// until they are resumed. The others still get some: they do not wait behind a crowd.
size_t Http2Codec::head_limit_bytes(bool resumed) const {
  if (!shared_.head_budget) return kTurnHeadBytes;
  const size_t at_least = resumed || (requests_ > 0 && !input_waits_) ? kLeastHeadBytes : 0;
  return std::max(at_least, std::min<size_t>(kTurnHeadBytes, shared_.head_budget->left_bytes));
}

HttpCodec::Status Http2Codec::receive_end(End) {
  SLUICE_CHECK(busy_ == 0);
  peer_ended_ = true;
  partial_.clear();
  Busy busy(*this);
  end_all(ResetReason::kConnectionLost);
  notify_receivers();
  return status();
}

void Http2Codec::park() {
  SLUICE_CHECK(busy_ == 0);
  partial_.compact(shared_.pool);
  if (block_stream_ == 0) decoder_.park(shared_.pool);
  encoder_.park();
}

bool Http2Codec::take_preface() {
  std::array<std::byte, kHttp2Preface.size()> scratch;
  const size_t size = std::min<size_t>(partial_.size(), preface_left_);
  const std::span<const std::byte> bytes = partial_.fetch(size, scratch);
  const std::string_view expected = kHttp2Preface.substr(kHttp2Preface.size() - preface_left_, size);
  if (size > 0 && std::memcmp(bytes.data(), expected.data(), size) != 0) {
    fail(Http2Error::kProtocolError, "no HTTP/2 preface");
    return false;
  }
  partial_.trim_front(size);
  preface_left_ = static_cast<uint8_t>(preface_left_ - size);
  return preface_left_ == 0;
}

// Parses the next frame; of DATA only the part before the data. Returns false if the frame is incomplete.
bool Http2Codec::take_frame() {
  if (partial_.size() < Http2FrameHeader::kBytes) return false;
  std::array<std::byte, Http2FrameHeader::kBytes> scratch;
  const auto header = Http2FrameHeader::read(partial_.fetch(Http2FrameHeader::kBytes, scratch));
  frame_type_ = header.type;
  frame_stream_ = header.stream;
  in_frame_ = true;
  if (!greeted_ && (header.type != Http2FrameType::kSettings || header.has(Http2FrameHeader::kAck))) {
    fail(Http2Error::kProtocolError, "the first frame is not SETTINGS");
    return false;
  }
  if (block_stream_ != 0 && (header.type != Http2FrameType::kContinuation || header.stream != block_stream_)) {
    fail(Http2Error::kProtocolError, "a header block is interrupted");
    return false;
  }
  if (holds_requests_ && header.type == Http2FrameType::kHeaders && header.stream > last_peer_id_) {
    holds_input_ = true;
    return false;
  }
  if (header.length > kHttp2FrameBytes) {
    fail(Http2Error::kFrameSizeError, "a frame is longer than SETTINGS_MAX_FRAME_SIZE");
    return false;
  }
  if (header.type == Http2FrameType::kData) {
    const bool padded = header.has(Http2FrameHeader::kPadded) && header.length > 0;
    if (partial_.size() < Http2FrameHeader::kBytes + (padded ? 1 : 0)) return false;
    partial_.trim_front(Http2FrameHeader::kBytes);
    begin_data(header);
    return true;
  }
  if (partial_.size() < Http2FrameHeader::kBytes + header.length) return false;
  partial_.trim_front(Http2FrameHeader::kBytes);
  deliver_gathered();
  take_whole_frame(header, partial_.split_front(header.length));
  return true;
}

void Http2Codec::take_whole_frame(const Http2FrameHeader& header, Buffer&& payload) {
  switch (header.type) {
    case Http2FrameType::kHeaders:
      return take_headers(header, std::move(payload));
    case Http2FrameType::kContinuation:
      if (block_stream_ == 0) return fail(Http2Error::kProtocolError, "CONTINUATION without a header block");
      if (++continuations_ > limits().continuations || payload.empty()) {
        ++counters().over_continuations;
        return fail_calm("too many or empty CONTINUATION frames");
      }
      return take_fragment(header, payload);
    case Http2FrameType::kPriority:
    case Http2FrameType::kRstStream:
      return take_stream_frame(header, payload);
    case Http2FrameType::kSettings:
      return take_settings(header, payload);
    case Http2FrameType::kPing:
      return take_ping(header, payload);
    case Http2FrameType::kGoaway:
      return take_goaway(header, payload);
    case Http2FrameType::kWindowUpdate:
      return take_window_update(header, payload);
    case Http2FrameType::kPriorityUpdate:
      return take_priority_update(header, payload);
    case Http2FrameType::kPushPromise:
      return fail(Http2Error::kProtocolError, "PUSH_PROMISE, which is not supported");
    case Http2FrameType::kData:
      break;
  }
  fail_calm(abuse_.unused_frame(counters()));  // An unknown type: RFC 9113 section 4.1.
}

// PRIORITY and RST_STREAM.
void Http2Codec::take_stream_frame(const Http2FrameHeader& header, const Buffer& payload) {
  if (header.stream == 0) return fail(Http2Error::kProtocolError, "a stream frame on stream 0");
  Http2Stream* stream = table_.find(header.stream);
  const bool idle = !stream && closed_state(header.stream) == Closed::kIdle;
  if (header.type == Http2FrameType::kPriority) {
    // Its content is ignored, even a dependency on itself (CVE-2025-8671).
    if (const char* error = abuse_.unused_frame(counters())) return fail_calm(error);
    if (header.length == 5) return;
    if (!stream || stream->closed()) return fail(Http2Error::kFrameSizeError, "PRIORITY with a wrong length");
    return stream_error(*stream, Http2Error::kFrameSizeError, ResetReason::kMalformed, "PRIORITY with a wrong length");
  }
  if (header.length != 4) return fail(Http2Error::kFrameSizeError, "RST_STREAM with a wrong length");
  if (idle) return fail(Http2Error::kProtocolError, "RST_STREAM on an idle stream");
  if (!stream || stream->closed()) return frame_on_closed();
  std::array<std::byte, 4> scratch;
  take_reset(*stream, read_frame_u32(payload.fetch(4, scratch), 0));
}

void Http2Codec::fail(Http2Error code, const char* error) {
  if (failed()) return;
  status_ = Status::kFailed;
  error_ = error;
  if (code != Http2Error::kEnhanceYourCalm) ++counters().protocol_failures;
  if (is_server()) report_failure(error);
  send_goaway(is_server() ? std::min(last_peer_id_, last_accepted_id_) : 0, code, error);
  end_all(ResetReason::kConnectionLost);
}

// What is known of a message that breaks a rule.
BrokenMessage Http2Codec::broken(const char* rule, uint32_t stream) const {
  BrokenMessage message{.rule = rule, .stream = stream};
  if (in_frame_) message.frame = http2_frame_name(frame_type_);
  return message;
}

void Http2Codec::report_failure(const char* error) {
  BrokenMessage message = broken(error, in_frame_ ? frame_stream_ : 0);
  if (block_stream_ != 0) message.add(block_.head());
  acceptor_->on_failed(message);
}

void Http2Codec::give_up(const char* error) {
  SLUICE_CHECK(busy_ == 0);
  Busy busy(*this);
  fail_calm(error);
  partial_.clear();
  block_stream_ = 0;
  block_ = Http2HeaderBlock();
  notify_receivers();
}

void Http2Codec::fail_calm(const char* error) {
  if (error) fail(Http2Error::kEnhanceYourCalm, error);
}

// Receivers are notified later, because their calls may change anything.
void Http2Codec::end_all(ResetReason reason) {
  table_.for_each([this, reason](Http2Stream& stream) {
    if (stream.closed()) return;
    stream.reset_ = true;
    stream.reset_by_peer_ = true;
    close(stream);
    stream.notify_reset_ = true;
    stream.pending_reason_ = reason;
    notify_later(stream);
  });
}

}  // namespace sluice
