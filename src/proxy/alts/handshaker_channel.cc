#include "proxy/alts/handshaker_channel.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "alts_like/handshaker_text.h"
#include "buffer/copied.h"
#include "pool/check.h"

namespace sluice {

namespace {

constexpr std::string_view kPath = "/grpc.gcp.HandshakerService/DoHandshake";
constexpr std::string_view kContentType = "application/grpc";

// Of a gRPC message: whether it is compressed, and 32 bits of length.
constexpr size_t kPrefixBytes = 5;

// Of what the service says about a failure.
constexpr size_t kMaxDetailBytes = 256;

// Answers of ours that a service which does not read may make us owe.
constexpr size_t kMaxOwedAnswers = 100;

nghttp2_nv field(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(text.data()));  // It is only read.
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

std::optional<uint32_t> number_in(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// grpc-message is written like a part of a URL.
std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3) {
      decoded.push_back(static_cast<char>(byte));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

}  // namespace

struct HandshakerChannel::Stream {
  int32_t id = 0;
  Caller* caller = nullptr;  // Null: it is closed on our side.
  // What we send.
  std::string out;
  size_t sent = 0;
  bool done = false;
  bool resetting = false;
  // What we receive.
  bool asked = false;  // A response is due.
  std::string in;      // The beginning of a message.
  size_t header_bytes = 0;
  uint32_t http_status = 0;
  bool head_taken = false;
  std::string content_type;
  std::optional<uint32_t> grpc_status;
  std::string grpc_message;
};

// What nghttp2 calls. Streams are looked up by their ids: those that it knows and those that we know are not always the
// same.
struct HandshakerChannel::Callbacks {
  static HandshakerChannel& of(void* channel) { return *static_cast<HandshakerChannel*>(channel); }

  static nghttp2_ssize read(nghttp2_session*, int32_t id, uint8_t* to, size_t room, uint32_t* flags,
                            nghttp2_data_source*, void* channel) {
    Stream* const stream = of(channel).find(id);
    if (!stream) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const size_t bytes = std::min(room, stream->out.size() - stream->sent);
    if (bytes == 0 && !stream->done) return NGHTTP2_ERR_DEFERRED;
    counted_copy(to, stream->out.data() + stream->sent, bytes);
    stream->sent += bytes;
    if (stream->sent == stream->out.size() && stream->done) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<nghttp2_ssize>(bytes);
  }

  static int header(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                    const uint8_t* value, size_t value_size, uint8_t, void* channel) {
    Stream* const stream = of(channel).find(frame->hd.stream_id);
    if (!stream || !stream->caller) return 0;
    of(channel).take_header(*stream, {reinterpret_cast<const char*>(name), name_size},
                            {reinterpret_cast<const char*>(value), value_size});
    return 0;
  }

  static int data(nghttp2_session*, uint8_t, int32_t id, const uint8_t* bytes, size_t size, void* channel) {
    Stream* const stream = of(channel).find(id);
    if (stream && stream->caller) of(channel).take_data(*stream, {reinterpret_cast<const char*>(bytes), size});
    return 0;
  }

  static int frame(nghttp2_session*, const nghttp2_frame* frame, void* channel) {
    HandshakerChannel& self = of(channel);
    switch (frame->hd.type) {
      case NGHTTP2_SETTINGS:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK)) self.ready_ = true;
        return 0;
      case NGHTTP2_GOAWAY:
        self.leaving_ = true;
        if (frame->goaway.error_code == NGHTTP2_NO_ERROR) return 0;
        self.fail(self.name_ + " ended the connection: " + nghttp2_http2_strerror(frame->goaway.error_code) + ": " +
                  printable({reinterpret_cast<const char*>(frame->goaway.opaque_data), frame->goaway.opaque_data_len},
                            kMaxDetailBytes));
        return 0;
      case NGHTTP2_HEADERS:
      case NGHTTP2_DATA:
        break;
      default:
        return 0;
    }
    Stream* const stream = self.find(frame->hd.stream_id);
    if (!stream) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS) self.take_head(*stream);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) self.take_end(*stream);
    return 0;
  }

  static int not_sent(nghttp2_session*, const nghttp2_frame* frame, int, void* channel) {
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    HandshakerChannel& self = of(channel);
    if (Stream* const stream = self.find(frame->hd.stream_id)) {
      self.end(*stream, "took no more calls", /*untouched=*/true);
      self.erase(*stream);
    }
    return 0;
  }

  static int stream_closed(nghttp2_session*, int32_t id, uint32_t code, void* channel) {
    HandshakerChannel& self = of(channel);
    Stream* const stream = self.find(id);
    if (!stream) return 0;
    if (stream->grpc_status) {
      self.take_end(*stream);
    } else {
      self.end(*stream, std::string("reset the call: ") + nghttp2_http2_strerror(code), code == NGHTTP2_REFUSED_STREAM);
    }
    self.erase(*stream);
    return 0;
  }

  static int complaint(nghttp2_session*, int, const char* text, size_t size, void* channel) {
    of(channel).complaint_ = printable({text, size}, kMaxDetailBytes);
    return 0;
  }
};

struct HandshakerChannel::Settings {
  Settings() {
    SLUICE_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&options) == 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Callbacks::frame);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, Callbacks::not_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::stream_closed);
    nghttp2_session_callbacks_set_error_callback2(callbacks, Callbacks::complaint);
    nghttp2_option_set_max_outbound_ack(options, kMaxOwedAnswers);
  }
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* options = nullptr;
};

HandshakerChannel::HandshakerChannel(std::string_view address)
    : name_("the handshaker service " + std::string(address)),
      // A Unix socket's name is no authority.
      authority_(address.starts_with("unix:") ? "localhost" : address) {
  static const Settings settings;
  SLUICE_CHECK(nghttp2_session_client_new2(&session_, settings.callbacks, this, settings.options) == 0);
  constexpr nghttp2_settings_entry kOurs[] = {
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kMaxHeaderBytes},
  };
  SLUICE_CHECK(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, kOurs, std::size(kOurs)) == 0);
}

HandshakerChannel::~HandshakerChannel() {
  SLUICE_CHECK(calls_ == 0);
  nghttp2_session_del(session_);
}

bool HandshakerChannel::has_room() const {
  const uint32_t theirs = nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  return streams_.size() < std::min<size_t>(theirs, kMaxCalls) && nghttp2_session_check_request_allowed(session_);
}

void HandshakerChannel::reset_done() {
  for (const auto& stream : streams_) {
    if (!stream->caller) reset(*stream, NGHTTP2_CANCEL);
  }
}

void HandshakerChannel::open(Caller& caller, std::string_view message) {
  SLUICE_CHECK(ready_ && !leaving_ && has_room() && !caller.stream);
  const nghttp2_nv fields[] = {
      field(":method", "POST"),
      field(":scheme", "http"),
      field(":path", kPath),
      field(":authority", authority_),
      field("content-type", kContentType),
      field("te", "trailers"),
      field("user-agent", "sluice"),
  };
  nghttp2_data_provider2 body{};
  body.read_callback = Callbacks::read;
  auto stream = std::make_unique<Stream>();
  stream->id = nghttp2_submit_request2(session_, nullptr, fields, std::size(fields), &body, nullptr);
  SLUICE_CHECK(stream->id > 0);
  stream->caller = &caller;
  caller.stream = stream.get();
  ++calls_;
  streams_.push_back(std::move(stream));
  request(*caller.stream, message);
}

void HandshakerChannel::send(Caller& caller, std::string_view message) {
  SLUICE_CHECK(caller.stream && !caller.stream->asked);
  request(*caller.stream, message);
  nghttp2_session_resume_data(session_, caller.stream->id);
}

void HandshakerChannel::request(Stream& stream, std::string_view message) {
  stream.asked = true;
  stream.out.erase(0, std::exchange(stream.sent, 0));
  stream.out.push_back('\0');
  for (int shift = 24; shift >= 0; shift -= 8) stream.out.push_back(static_cast<char>(message.size() >> shift));
  stream.out += message;
}

void HandshakerChannel::close(Caller& caller, bool done) {
  Stream* const stream = std::exchange(caller.stream, nullptr);
  if (!stream) return;
  stream->caller = nullptr;
  --calls_;
  if (!done) return reset(*stream, NGHTTP2_CANCEL);
  stream->done = true;
  nghttp2_session_resume_data(session_, stream->id);
}

bool HandshakerChannel::receive(Buffer&& data) {
  for (const std::span<const std::byte> window : data.windows()) {
    if (!error_.empty()) return false;
    const nghttp2_ssize taken =
        nghttp2_session_mem_recv2(session_, reinterpret_cast<const uint8_t*>(window.data()), window.size());
    if (taken < 0) return break_off(nghttp2_strerror(static_cast<int>(taken)));
  }
  return goes_on();
}

// What breaks the rules of HTTP/2 shows once nghttp2 has said so to the service.
bool HandshakerChannel::goes_on() {
  if (!error_.empty()) return false;
  if (nghttp2_session_want_read(session_) || nghttp2_session_want_write(session_)) return true;
  if (!leaving_) return break_off("it broke the rules of HTTP/2");
  fail(name_ + " ended the connection");  // In good order.
  return false;
}

bool HandshakerChannel::produce(ChunkPool& pool, Buffer& out, size_t limit) {
  while (out.size() < limit) {
    const uint8_t* bytes = nullptr;
    const nghttp2_ssize size = nghttp2_session_mem_send2(session_, &bytes);
    if (size < 0) return break_off(nghttp2_strerror(static_cast<int>(size)));
    if (size == 0) break;
    const std::span frame(reinterpret_cast<const std::byte*>(bytes), static_cast<size_t>(size));
    if (out.append_copy(pool, frame)) continue;
    // Beyond the budget if need be: requests are as bounded as what they were made of.
    for (size_t done = 0; done < static_cast<size_t>(size);) {
      const size_t piece = std::min(static_cast<size_t>(size) - done, kMaxChunkBytes);
      Lease lease(ChunkRef::take(pool.get_metadata(piece)), 0, piece);
      counted_copy(lease.data(), bytes + done, piece);
      out.append(std::move(lease));
      done += piece;
    }
  }
  return goes_on();
}

bool HandshakerChannel::break_off(std::string why) {
  if (!complaint_.empty()) why += ": " + complaint_;
  fail(name_ + " does not speak as expected: " + why);
  return false;
}

void HandshakerChannel::fail(const std::string& error) {
  if (error_.empty()) error_ = error;
  for (const auto& stream : streams_) {
    Caller* const caller = std::exchange(stream->caller, nullptr);
    if (!caller) continue;
    caller->stream = nullptr;
    --calls_;
    caller->on_end(error, false);
  }
}

HandshakerChannel::Stream* HandshakerChannel::find(int32_t id) {
  const auto at = std::lower_bound(streams_.begin(), streams_.end(), id,
                                   [](const auto& s, int32_t other) { return s->id < other; });
  return at != streams_.end() && (*at)->id == id ? at->get() : nullptr;
}

void HandshakerChannel::erase(Stream& stream) {
  std::erase_if(streams_, [&](const auto& s) { return s.get() == &stream; });
}

// ---- What the service says in a call

void HandshakerChannel::take_header(Stream& stream, std::string_view name, std::string_view value) {
  stream.header_bytes += name.size() + value.size();
  if (stream.header_bytes > kMaxHeaderBytes) {
    end(stream, "sent more than " + std::to_string(kMaxHeaderBytes) + " bytes of headers");
    return reset(stream, NGHTTP2_ENHANCE_YOUR_CALM);
  }
  if (name == ":status") {
    stream.http_status = number_in(value).value_or(0);
  } else if (name == "content-type") {
    stream.content_type = value;
  } else if (name == "grpc-status") {
    // What is no number is UNKNOWN.
    stream.grpc_status = number_in(value).value_or(2);
  } else if (name == "grpc-message") {
    stream.grpc_message = printable(percent_decoded(value.substr(0, 3 * kMaxDetailBytes)), kMaxDetailBytes);
  }
}

void HandshakerChannel::take_head(Stream& stream) {
  if (stream.http_status / 100 == 1 || std::exchange(stream.head_taken, true) || !stream.caller) return;
  if (stream.http_status != 200) {
    end(stream, "answered with HTTP status " + std::to_string(stream.http_status));
  } else if (!stream.content_type.starts_with(kContentType)) {
    end(stream,
        "does not speak gRPC: it answered with the type \"" + printable(stream.content_type, kMaxDetailBytes) + '"');
  } else {
    return;
  }
  reset(stream, NGHTTP2_CANCEL);
}

void HandshakerChannel::take_data(Stream& stream, std::string_view data) {
  const auto give_up = [&](const std::string& why) {
    end(stream, why);
    reset(stream, NGHTTP2_CANCEL);
  };
  stream.in += data;
  while (stream.in.size() >= kPrefixBytes) {
    if (stream.in[0] != '\0') return give_up("sent a message that is compressed, or none");
    size_t size = 0;
    for (size_t i = 1; i < kPrefixBytes; ++i) size = size << 8 | static_cast<uint8_t>(stream.in[i]);
    if (size > kMaxMessageBytes) {
      return give_up("sent a message of " + std::to_string(size) + " bytes, more than " +
                     std::to_string(kMaxMessageBytes));
    }
    if (stream.in.size() < kPrefixBytes + size) return;
    if (!std::exchange(stream.asked, false)) return give_up("answered without being asked");
    std::string message = stream.in.substr(kPrefixBytes, size);
    stream.in.erase(0, kPrefixBytes + size);
    stream.caller->on_response(std::move(message));
  }
}

// The service has said all; what is left of our side is closed too.
void HandshakerChannel::take_end(Stream& stream) {
  if (stream.grpc_status.value_or(0) != 0) {
    end(stream, "ended the call: " + grpc_code_name(*stream.grpc_status) + ": " + stream.grpc_message);
  } else if (!stream.in.empty()) {
    end(stream, "ended the call within a message");
  } else {
    end(stream,
        stream.grpc_status ? "ended the call before the handshake was done" : "ended the call without a status");
  }
  if (!stream.done) reset(stream, NGHTTP2_NO_ERROR);
}

void HandshakerChannel::end(Stream& stream, const std::string& why, bool untouched) {
  Caller* const caller = std::exchange(stream.caller, nullptr);
  if (!caller) return;
  caller->stream = nullptr;
  --calls_;
  caller->on_end(name_ + ' ' + why, untouched);
}

void HandshakerChannel::reset(Stream& stream, uint32_t code) {
  if (std::exchange(stream.resetting, true)) return;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, code);
}

}  // namespace sluice
