#include "proxy/alts/handshaker_channel.h"

#include <openssl/mem.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "alts_like/handshaker_text.h"
#include "proxy/http/message/head.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

constexpr std::string_view kPath = "/grpc.gcp.HandshakerService/DoHandshake";
constexpr std::string_view kContentType = "application/grpc";

// The prefix of a gRPC message: the compressed flag, and 32 bits of length.
constexpr size_t kPrefixBytes = 5;

// Overwrites the bytes in all windows that nobody else refers to.
void wipe(Buffer& buffer) {
  for (size_t i = 0; i < buffer.window_count(); ++i) {
    const std::span<std::byte> window = buffer.writable_window(i);
    OPENSSL_cleanse(window.data(), window.size());
  }
  buffer.clear();
}

std::optional<uint32_t> number_in(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Decodes grpc-message, which is percent-encoded.
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

std::string name_of(Http2Error error) {
  const std::string_view name = http2_error_name(error);
  return name.empty() ? std::to_string(static_cast<uint32_t>(error)) : std::string(name);
}

Http2Limits limits_of_service() {
  Http2Limits limits;
  limits.streams = HandshakerChannel::kMaxStreams;
  limits.header_list_bytes = HandshakerChannel::kMaxHeaderBytes;
  return limits;
}

}  // namespace

// The HTTP/2 stream of a call. It is destroyed when the service has ended the call, or at once if the call is canceled.
class HandshakerChannel::Stream final : public StreamReceiver {
 public:
  Stream(HandshakerChannel& channel, Caller& caller) : channel_(channel), caller_(&caller) {
    http_ = channel.codec_.open_stream(*this);
    SLUICE_CHECK(http_);
    http_->send_head(channel.request_head(), false);
  }

  void request(std::string_view message) {
    SLUICE_CHECK(!requested_);
    requested_ = true;
    std::array<std::byte, kPrefixBytes> prefix{};
    write_frame_u32(prefix.data() + 1, static_cast<uint32_t>(message.size()));
    Buffer body;
    body.append_copy_beyond_budget(pool(), prefix);
    body.append_copy_beyond_budget(pool(), message);
    http_->send_body(std::move(body), false);
  }
  /// Detaches the caller and ends our direction. The stream then waits for the service to end the call.
  void finish() {
    caller_ = nullptr;
    end_our_side();
  }
  bool done() const { return caller_ == nullptr; }
  void end(const std::string& error, bool untouched) {
    Caller* const caller = std::exchange(caller_, nullptr);
    if (!caller) return;
    caller->stream = nullptr;
    --channel_.calls_;
    caller->on_end(error, untouched);
  }
  void release() { http_->release(); }

 private:
  void on_head(HttpStream& http, Head&& head, bool end) override;
  void on_body(HttpStream& http, Buffer&& body, bool end) override;
  void on_trailers(HttpStream&, Fields&& trailers) override { take_end(trailers); }
  void on_reset(HttpStream& http, ResetReason reason) override;
  void on_drained(HttpStream&) override {}

  ChunkPool& pool() const { return channel_.shared_.pool; }
  bool take_messages();
  void take_end(const Fields& fields);
  void end_our_side() {
    if (!std::exchange(ended_, true)) http_->send_body(Buffer(), true);
  }
  // Ends the call on both sides and destroys this object.
  void give_up(const std::string& why, bool untouched = false) {
    end(channel_.name_ + ' ' + why, untouched);
    channel_.erase(*this);
  }

  HandshakerChannel& channel_;
  Caller* caller_;  // Null: the call has ended on our side.
  HttpStream* http_;
  Buffer in_;               // The beginning of an incomplete message.
  bool requested_ = false;  // A request is in flight.
  bool ended_ = false;      // Our direction has ended.
};

void HandshakerChannel::Stream::on_head(HttpStream&, Head&& head, bool end) {
  if (head.status < 200) return;
  if (head.status != 200) return give_up("responded with HTTP status " + std::to_string(head.status));
  const std::string_view type = head.fields.value("content-type");
  if (!type.starts_with(kContentType)) {
    return give_up("does not speak gRPC: it responded with the content type \"" + printable(type, kMaxDetailBytes) +
                   '"');
  }
  if (end) take_end(head.fields);
}

void HandshakerChannel::Stream::on_body(HttpStream&, Buffer&& body, bool end) {
  if (done()) {
    body.clear();
    if (end) channel_.erase(*this);
    return;
  }
  in_.append_packed(pool(), std::move(body));
  if (take_messages() && end) take_end(Fields());
}

// Delivers the complete messages in in_. False if the call was given up.
bool HandshakerChannel::Stream::take_messages() {
  const auto refuse = [this](const std::string& why) {
    give_up(why);
    return false;
  };
  while (in_.size() >= kPrefixBytes) {
    std::array<std::byte, kPrefixBytes> scratch;
    const std::span<const std::byte> prefix = in_.fetch(kPrefixBytes, scratch);
    if (prefix[0] != std::byte{0}) return refuse("sent a compressed or malformed gRPC message");
    const size_t size = read_frame_u32(prefix, 1);
    if (size > kMaxMessageBytes) {
      return refuse("sent a message of " + std::to_string(size) + " bytes, more than " +
                    std::to_string(kMaxMessageBytes));
    }
    if (in_.size() < kPrefixBytes + size) break;
    if (!std::exchange(requested_, false)) return refuse("sent a response without a request");
    in_.trim_front(kPrefixBytes);
    // The message may hold the connection's keys, so the buffer is wiped.
    Buffer bytes = in_.split_front(size);
    std::string message = bytes.to_string();
    wipe(bytes);
    caller_->on_response(std::move(message));
  }
  return true;
}

// The service has ended the call, with the gRPC status in `fields`.
void HandshakerChannel::Stream::take_end(const Fields& fields) {
  const size_t at = fields.find("grpc-status");
  std::string why;
  if (at == Fields::npos) {
    why = in_.empty() ? "ended the call without a status" : "ended the call within a message";
  } else if (const uint32_t status = number_in(fields[at].value).value_or(2); status != 0) {  // No number is UNKNOWN.
    const std::string_view message = fields.value("grpc-message").substr(0, 3 * kMaxDetailBytes);
    why = "ended the call: " + grpc_code_name(status) + ": " + printable(percent_decoded(message), kMaxDetailBytes);
  } else {
    why = in_.empty() ? "ended the call before the handshake was done" : "ended the call within a message";
  }
  if (http_->queued() == 0) end_our_side();  // Ends the stream without a reset if possible.
  give_up(why);
}

void HandshakerChannel::Stream::on_reset(HttpStream&, ResetReason reason) {
  if (const auto error = std::exchange(channel_.reset_error_, std::nullopt)) {
    return give_up("reset the call: " + name_of(*error), reason == ResetReason::kRefused);
  }
  switch (reason) {
    case ResetReason::kRefused:  // Refused by a GOAWAY.
      if (channel_.farewell_.empty()) return give_up("accepts no more calls", true);
      end(channel_.farewell_, true);
      return channel_.erase(*this);
    case ResetReason::kTooLarge:
      return give_up("sent more than " + std::to_string(kMaxHeaderBytes) + " bytes of headers");
    case ResetReason::kConnectionLost:
      return;  // check_codec() notifies all callers.
    default:
      return give_up("violated HTTP/2 in its response");
  }
}

HandshakerChannel::HandshakerChannel(ChunkPool& pool, std::string_view address)
    : name_("the handshaker service " + std::string(address)),
      // A Unix socket's name is not a valid authority.
      authority_(address.starts_with("unix:") ? "localhost" : address),
      limits_(limits_of_service()),
      shared_{pool, limits_, counters_, this},
      codec_(shared_) {}

HandshakerChannel::~HandshakerChannel() { SLUICE_CHECK(calls_ == 0); }

bool HandshakerChannel::has_room() const {
  return codec_.streams() < std::min<size_t>(codec_.peer_streams(), kMaxStreams);
}

void HandshakerChannel::reset_done() {
  std::erase_if(streams_, [](const std::unique_ptr<Stream>& stream) {
    if (stream->done()) stream->release();
    return stream->done();
  });
}

void HandshakerChannel::open(Caller& caller, std::string_view request) {
  SLUICE_CHECK(ready() && !leaving() && has_room() && !caller.stream);
  streams_.push_back(std::make_unique<Stream>(*this, caller));
  caller.stream = streams_.back().get();
  ++calls_;
  ++opened_;
  caller.stream->request(request);
}

Head HandshakerChannel::request_head() const {
  ChunkPool& pool = shared_.pool;
  Head head;
  const bool made = head.set(pool, Head::Part::kMethod, "POST") && head.set(pool, Head::Part::kScheme, "http") &&
                    head.set(pool, Head::Part::kPath, kPath) && head.set(pool, Head::Part::kAuthority, authority_) &&
                    head.fields.add(pool, "content-type", kContentType) && head.fields.add(pool, "te", "trailers") &&
                    head.fields.add(pool, "user-agent", "sluice");
  SLUICE_CHECK(made);
  return head;
}

void HandshakerChannel::send(Caller& caller, std::string_view request) {
  SLUICE_CHECK(caller.stream);
  caller.stream->request(request);
}

void HandshakerChannel::close(Caller& caller, bool done) {
  Stream* const stream = std::exchange(caller.stream, nullptr);
  if (!stream) return;
  --calls_;
  done ? stream->finish() : erase(*stream);
}

bool HandshakerChannel::receive(Buffer&& data) {
  if (!error_.empty()) return false;
  codec_.receive(std::move(data));
  return check_codec();
}

bool HandshakerChannel::produce(Buffer& out, size_t limit) {
  while (codec_.has_output() && out.size() < limit) codec_.flush(out);
  return check_codec();
}

bool HandshakerChannel::check_codec() {
  if (!error_.empty()) return false;
  switch (codec_.status()) {
    case HttpCodec::Status::kOpen:
      return true;
    case HttpCodec::Status::kEnded:
      fail(farewell_.empty() ? name_ + " ended the connection" : farewell_);
      return false;
    case HttpCodec::Status::kFailed:
      fail(name_ + " violated HTTP/2: " + std::string(codec_.error()));
      return false;
  }
  return false;
}

void HandshakerChannel::fail(const std::string& error) {
  if (error_.empty()) error_ = error;
  for (const auto& stream : streams_) stream->end(error, false);
}

void HandshakerChannel::on_goaway(Http2Error error, std::string_view text) {
  if (error == Http2Error::kNoError) return;
  farewell_ = name_ + " ended the connection: " + name_of(error);
  if (!text.empty()) farewell_ += ": " + printable(text, kMaxDetailBytes);
}

// Destroys the stream, with a reset if it has not ended.
void HandshakerChannel::erase(Stream& stream) {
  stream.release();
  std::erase_if(streams_, [&](const auto& s) { return s.get() == &stream; });
}

}  // namespace sluice
