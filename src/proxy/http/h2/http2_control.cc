// Frames that concern the whole connection: SETTINGS, PING, GOAWAY, WINDOW_UPDATE.

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "proxy/http/h2/http2_codec.h"

namespace sluice {
namespace {

// The PING whose acknowledgment shows that the peer has read the GOAWAY before it.
constexpr std::array<std::byte, 8> kDrainPing{std::byte{'d'}, std::byte{'r'}, std::byte{'a'}, std::byte{'i'},
                                              std::byte{'n'}, std::byte{'i'}, std::byte{'n'}, std::byte{'g'}};

}  // namespace

void Http2Codec::queue(Http2FrameHeader header, std::span<const std::byte> payload) {
  append_frame(shared_.pool, control_, header, payload);
  queued_frame();
}

void Http2Codec::queue(Http2FrameType type, uint32_t stream, uint32_t value) {
  append_frame(shared_.pool, control_, type, stream, value);
  queued_frame();
}

void Http2Codec::queued_frame() {
  if (failed()) return;
  if (++control_frames_ <= limits().queued_control_frames && control_.size() <= limits().queued_control_bytes) return;
  ++counters().over_queued_control;
  control_.clear();  // Drops the frames that the peer made us queue.
  fail_calm("too much queued output");
}

void Http2Codec::reply() { fail_calm(abuse_.reply(limits(), counters())); }

void Http2Codec::take_settings(const Http2FrameHeader& header, const Buffer& payload) {
  if (header.stream != 0) return fail(Http2Error::kProtocolError, "SETTINGS on a stream");
  if (header.has(Http2FrameHeader::kAck)) {
    if (header.length != 0) return fail(Http2Error::kFrameSizeError, "a SETTINGS acknowledgment has a payload");
    if (acknowledged_) return glitch();
    acknowledged_ = true;
    if (greeted_ms_ != 0) round_trip_ms_ = std::max(now_ms_ - greeted_ms_, uint32_t{1});
    // Until now the peer may have used the protocol's initial window.
    if (limits().stream_window_bytes < kHttp2FirstWindow) {
      const auto less = static_cast<int32_t>(kHttp2FirstWindow - limits().stream_window_bytes);
      table_.for_each([less](Http2Stream& stream) { stream.receive_window_ -= less; });
    }
    return;
  }
  constexpr uint32_t kEntryBytes = 6;
  if (header.length % kEntryBytes != 0) return fail(Http2Error::kFrameSizeError, "SETTINGS with a wrong length");
  if (const char* error = abuse_.settings(limits(), counters())) return fail_calm(error);
  if (header.length / kEntryBytes > limits().settings_entries) {
    ++counters().over_settings;
    return fail_calm("too many SETTINGS in a frame");
  }
  // Of repeated settings only the last value counts, plus the smallest table size: each window change takes time
  // proportional to the number of streams.
  std::optional<uint32_t> window, table;
  uint32_t smallest_table = kHpackTableBytes;
  for (uint32_t at = 0; at < header.length; at += kEntryBytes) {
    std::array<std::byte, kEntryBytes> scratch;
    const std::span<const std::byte> entry = payload.fetch(at, kEntryBytes, scratch);
    const uint32_t value = read_frame_u32(entry, 2);
    switch (static_cast<Http2Setting>(read_frame_u32(entry, 0) >> 16)) {
      case Http2Setting::kHeaderTableSize:
        table = value;
        smallest_table = std::min(smallest_table, value);
        break;
      case Http2Setting::kEnablePush:
        if (value > (is_server() ? 1u : 0u)) return fail(Http2Error::kProtocolError, "SETTINGS_ENABLE_PUSH is invalid");
        break;
      case Http2Setting::kMaxConcurrentStreams:
        peer_streams_ = value;
        break;
      case Http2Setting::kInitialWindowSize:
        if (value > kHttp2MaxWindow) {
          return fail(Http2Error::kFlowControlError, "SETTINGS_INITIAL_WINDOW_SIZE is too large");
        }
        window = value;
        break;
      case Http2Setting::kMaxFrameSize:
        // We never send more than kHttp2FrameBytes.
        if (value < kHttp2FrameBytes || value >= uint32_t{1} << 24) {
          return fail(Http2Error::kProtocolError, "SETTINGS_MAX_FRAME_SIZE is invalid");
        }
        break;
      case Http2Setting::kEnableConnectProtocol:
        if (value > 1 || (value == 0 && peer_takes_protocols_)) {
          return fail(Http2Error::kProtocolError, "SETTINGS_ENABLE_CONNECT_PROTOCOL is invalid");
        }
        peer_takes_protocols_ = value == 1;
        break;
      case Http2Setting::kNoRfc7540Priorities:
        if (value > 1) return fail(Http2Error::kProtocolError, "SETTINGS_NO_RFC7540_PRIORITIES is invalid");
        break;
      case Http2Setting::kMaxHeaderListSize:
        peer_header_list_ = value;
        break;
      default:
        break;
    }
  }
  greeted_ = true;
  if (table) encoder_.set_table_bytes(smallest_table, *table);
  if (window) {
    const int64_t change = int64_t{*window} - peer_stream_window_;
    peer_stream_window_ = *window;
    change_send_windows(change);
  }
  if (failed()) return;
  queue({.type = Http2FrameType::kSettings, .flags = Http2FrameHeader::kAck}, {});
  reply();
}

void Http2Codec::change_send_windows(int64_t change) {
  bool too_large = false;
  table_.for_each([&](Http2Stream& stream) {
    if (stream.closed()) return;
    const int64_t window = stream.send_window_ + change;
    too_large = too_large || window > kHttp2MaxWindow;
    if (too_large) return;
    stream.send_window_ = static_cast<int32_t>(window);
    schedule(stream);
  });
  if (too_large) fail(Http2Error::kFlowControlError, "SETTINGS make a window too large");
}

void Http2Codec::take_ping(const Http2FrameHeader& header, const Buffer& payload) {
  if (header.stream != 0) return fail(Http2Error::kProtocolError, "PING on a stream");
  if (header.length != 8) return fail(Http2Error::kFrameSizeError, "PING with a wrong length");
  std::array<std::byte, 8> scratch;
  const std::span<const std::byte> bytes = payload.fetch(8, scratch);
  if (header.has(Http2FrameHeader::kAck)) {
    if (!std::ranges::equal(bytes, kDrainPing) || drain_ == Drain::kNo) return glitch();
    if (drain_ == Drain::kAnnounced) send_last_goaway();
    return;
  }
  const bool earned = abuse_.earned_ping();
  if (const char* error = earned ? nullptr : abuse_.ping(limits(), counters())) return fail_calm(error);
  queue({.type = Http2FrameType::kPing, .flags = Http2FrameHeader::kAck}, bytes);
  if (!earned) reply();
}

void Http2Codec::take_goaway(const Http2FrameHeader& header, const Buffer& payload) {
  if (header.stream != 0) return fail(Http2Error::kProtocolError, "GOAWAY on a stream");
  if (header.length < 8) return fail(Http2Error::kFrameSizeError, "GOAWAY with a wrong length");
  std::array<std::byte, 8 + kMaxGoawayText> scratch;
  const std::span<const std::byte> bytes = payload.fetch(std::min<size_t>(header.length, scratch.size()), scratch);
  const uint32_t last = read_frame_u32(bytes, 0) & kHttp2MaxStream;
  ++counters().goaways_received;
  if (shared_.error_reader) {
    shared_.error_reader->on_goaway(static_cast<Http2Error>(read_frame_u32(bytes, 4)),
                                    {reinterpret_cast<const char*>(bytes.data()) + 8, bytes.size() - 8});
  }
  if (peer_draining_) glitch();  // Includes the second step of a drain, which is legitimate: one glitch does no harm.
  if (failed() || (peer_draining_ && last >= peer_last_id_)) return;
  peer_draining_ = true;
  peer_last_id_ = last;
  if (is_server()) return;
  table_.for_each([this](Http2Stream& stream) {
    if (stream.closed() || (stream.id_ != 0 && stream.id_ <= peer_last_id_)) return;
    stream.reset_ = true;  // No RST_STREAM: the peer ignores the stream.
    close(stream);
    stream.notify_reset_ = true;
    stream.pending_reason_ = ResetReason::kRefused;
    notify_later(stream);
  });
}

void Http2Codec::take_window_update(const Http2FrameHeader& header, const Buffer& payload) {
  if (header.length != 4) return fail(Http2Error::kFrameSizeError, "WINDOW_UPDATE with a wrong length");
  if (const char* error = abuse_.window_update(counters())) return fail_calm(error);
  std::array<std::byte, 4> scratch;
  const uint32_t more = read_frame_u32(payload.fetch(4, scratch), 0) & kHttp2MaxStream;
  if (header.stream == 0) {
    if (more == 0) return fail(Http2Error::kProtocolError, "WINDOW_UPDATE with an increment of 0");
    if (send_window_ + more > kHttp2MaxWindow) {
      return fail(Http2Error::kFlowControlError, "WINDOW_UPDATE makes the connection's window too large");
    }
    send_window_ += more;
    return;
  }
  Http2Stream* stream = table_.find(header.stream);
  if (!stream) {
    if (closed_state(header.stream) == Closed::kIdle) {
      fail(Http2Error::kProtocolError, "WINDOW_UPDATE on an idle stream");
    }
    return;
  }
  if (stream->closed()) return;
  if (more == 0) {
    return stream_error(*stream, Http2Error::kProtocolError, ResetReason::kMalformed,
                        "WINDOW_UPDATE with an increment of 0");
  }
  const int64_t window = int64_t{stream->send_window_} + more;
  if (window > kHttp2MaxWindow) {
    return stream_error(*stream, Http2Error::kFlowControlError, ResetReason::kMalformed,
                        "WINDOW_UPDATE makes the stream's window too large");
  }
  stream->send_window_ = static_cast<int32_t>(window);
  schedule(*stream);
}

void Http2Codec::take_priority_update(const Http2FrameHeader& header, const Buffer& payload) {
  if (!is_server() || header.stream != 0) {
    return fail(Http2Error::kProtocolError, "PRIORITY_UPDATE where it does not belong");
  }
  if (header.length < 4) return fail(Http2Error::kFrameSizeError, "PRIORITY_UPDATE with a wrong length");
  if (const char* error = abuse_.unused_frame(counters())) return fail_calm(error);
  constexpr size_t kValueBytes = 256;
  std::array<std::byte, 4 + kValueBytes> scratch;
  const size_t size = std::min<size_t>(header.length, scratch.size());
  const std::span<const std::byte> bytes = payload.fetch(size, scratch);
  const uint32_t id = read_frame_u32(bytes, 0) & kHttp2MaxStream;
  if (id == 0 || id % 2 == 0) return fail(Http2Error::kProtocolError, "PRIORITY_UPDATE for no request");
  // An update that precedes its stream is ignored, as RFC 9218 section 7.1 permits.
  Http2Stream* stream = table_.find(id);
  if (!stream || stream->closed()) return;
  Http2Priority priority = stream->priority_;
  priority.parse({reinterpret_cast<const char*>(bytes.data()) + 4, size - 4});
  schedule_.change(*stream, priority);
}

void Http2Codec::send_goaway(uint32_t last, Http2Error code, std::string_view text) {
  std::array<std::byte, 128> payload;
  write_frame_u32(payload.data(), last);
  write_frame_u32(payload.data() + 4, static_cast<uint32_t>(code));
  const size_t text_bytes = std::min(text.size(), payload.size() - 8);
  std::ranges::copy(std::as_bytes(std::span(text.substr(0, text_bytes))), payload.begin() + 8);
  append_frame(shared_.pool, control_, {.type = Http2FrameType::kGoaway}, std::span(payload).first(8 + text_bytes));
  ++counters().goaways_sent;
}

void Http2Codec::drain() {
  if (failed() || drain_ == Drain::kFinal) return;
  if (!is_server()) {
    drain_ = Drain::kFinal;
    return send_goaway(0, Http2Error::kNoError);
  }
  if (drain_ == Drain::kAnnounced) return send_last_goaway();
  drain_ = Drain::kAnnounced;
  send_goaway(kHttp2MaxStream, Http2Error::kNoError);
  append_frame(shared_.pool, control_, {.type = Http2FrameType::kPing}, kDrainPing);
}

void Http2Codec::send_last_goaway() {
  drain_ = Drain::kFinal;
  last_accepted_id_ = last_peer_id_;
  send_goaway(last_peer_id_, Http2Error::kNoError);
}

}  // namespace sluice
