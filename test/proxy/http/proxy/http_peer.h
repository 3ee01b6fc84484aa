// The far end of a connection that speaks HTTP with the proxy's own codecs, on a plain socket.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/http/h1/http1_client.h"
#include "proxy/http/h1/http1_server.h"
#include "proxy/http/h2/http2_codec.h"
#include "test/net/loop.h"

namespace sluice::test {

using FieldList = std::initializer_list<std::pair<std::string_view, std::string_view>>;

class HttpPeer;

/// One stream of such an end: what it received, and what it sends.
class PeerStream final : public StreamReceiver {
 public:
  explicit PeerStream(ChunkPool& pool) : pool_(pool) {}
  PeerStream(const PeerStream&) = delete;
  PeerStream& operator=(const PeerStream&) = delete;

  // Sending, in the order of HttpStream. Does nothing once the stream is over.
  void request(std::string_view method, std::string_view path, FieldList fields, std::string_view protocol, bool end) {
    Head message;
    set(message, Head::Part::kMethod, method);
    set(message, Head::Part::kScheme, "http");
    set(message, Head::Part::kAuthority, "a.test");
    if (!path.empty()) set(message, Head::Part::kPath, path);
    if (!protocol.empty()) set(message, Head::Part::kProtocol, protocol);
    send_message(std::move(message), fields, end);
  }
  void respond(uint16_t status, FieldList fields, bool end) {
    Head message;
    message.status = status;
    send_message(std::move(message), fields, end);
  }
  void respond(uint16_t status, std::string_view bytes) {
    respond(status, {}, false);
    send(bytes, true);
  }
  void send(std::string_view bytes, bool end = false) {
    sent_end = sent_end || end;
    codec_stream->send_body(buffer_of(pool_, bytes), end);
  }
  void send_trailers(FieldList fields) {
    Fields message;
    for (const auto& [name, value] : fields) EXPECT_TRUE(message.add(pool_, name, value));
    sent_end = true;
    codec_stream->send_trailers(message);
  }
  /// Breaks it off: an HTTP/2 stream, or the whole HTTP/1.1 connection.
  void cancel(ResetReason why = ResetReason::kCancelled) {
    codec_stream->reset(why);
    release();
  }
  void release() {
    if (codec_stream) std::exchange(codec_stream, nullptr)->release();
  }
  /// Releases a stream that is over.
  void settle() {
    if (codec_stream && (reset || (ended && sent_end && codec_stream->sent_all()))) release();
  }

  std::string field(std::string_view name) const { return std::string(head.fields.value(name)); }
  bool over() const { return ended || reset; }

  void on_head(HttpStream&, Head&& came, bool end) override {
    EXPECT_FALSE(over());
    if (came.status >= 100 && came.status < 200) {
      interim.push_back(came.status);
      return;
    }
    head = std::move(came);
    has_head = true;
    ended = end;
  }
  void on_body(HttpStream&, Buffer&& came, bool end) override {
    EXPECT_TRUE(has_head && !over());
    body += text_of(came);
    ended = end;
  }
  void on_trailers(HttpStream&, Fields&& came) override {
    EXPECT_TRUE(has_head && !over());
    trailers = std::move(came);
    ended = true;
  }
  void on_reset(HttpStream&, ResetReason why) override {
    EXPECT_FALSE(reset);
    reset = true;
    reason = why;
  }
  void on_drained(HttpStream&) override {}

  // Received data.
  HttpPeer* connection = nullptr;      ///< The connection of the stream.
  HttpStream* codec_stream = nullptr;  ///< Null once it was released.
  Head head;
  std::vector<uint16_t> interim;
  std::string body;
  Fields trailers;
  ResetReason reason = ResetReason::kCancelled;
  bool has_head = false, ended = false, reset = false;
  bool sent_end = false;

 private:
  void set(Head& message, Head::Part part, std::string_view value) { EXPECT_TRUE(message.set(pool_, part, value)); }
  void send_message(Head&& message, FieldList fields, bool end) {
    for (const auto& [name, value] : fields) EXPECT_TRUE(message.fields.add(pool_, name, value));
    sent_end = end;
    codec_stream->send_head(message, end);
  }

  ChunkPool& pool_;
};

/// A connection. It acts only in turn().
class HttpPeer final : public HttpCodec::Acceptor {
 public:
  struct Options {
    bool http2 = false;
    bool server = false;
    uint32_t streams = 1000;                  ///< HTTP/2: how many it allows at once.
    uint32_t header_list = 32 * 1024;         ///< HTTP/2: twice that ends the connection.
    std::vector<PeerStream*>* log = nullptr;  ///< Gets a server's requests, in the order in which they arrive.
  };

  HttpPeer(ChunkPool& pool, int fd, const Options& options)
      : socket(fd), pool_(pool), http2_(options.http2), log_(options.log) {
    limits2_.streams = options.streams;
    limits2_.header_list_bytes = options.header_list;
    limits2_.requests = limits1_.limits.requests = UINT32_MAX;
    limits1_.allow_connect = true;
    if (!options.server) limits1_.limits = Http1Limits::of_responses();
    if (http2_) {
      codec = std::make_unique<Http2Codec>(shared2_, options.server ? this : nullptr);
    } else if (options.server) {
      codec = std::make_unique<Http1Server>(pool, limits1_, counts1_, *this);
    } else {
      codec = std::make_unique<Http1Client>(pool, limits1_, counts1_);
    }
  }
  ~HttpPeer() { codec.reset(); }  // Before the objects to which it refers.
  HttpPeer(const HttpPeer&) = delete;
  HttpPeer& operator=(const HttpPeer&) = delete;

  /// A client's call: begins a stream, without sending anything.
  PeerStream& open() {
    PeerStream& stream = *streams.emplace_back(std::make_unique<PeerStream>(pool_));
    stream.connection = this;
    stream.codec_stream = codec->open_stream(stream);
    SLUICE_CHECK(stream.codec_stream != nullptr);
    return stream;
  }
  bool can_open() {
    PeerStream probe(pool_);
    HttpStream* const stream = codec->open_stream(probe);
    if (stream) stream->release();
    return stream != nullptr;
  }
  PeerStream& send_request(std::string_view method = "GET", std::string_view path = "/", FieldList fields = {},
                           bool end = true) {
    PeerStream& stream = open();
    stream.request(method, path, fields, "", end);
    return stream;
  }
  PeerStream& post(std::string_view body, bool end = true) {
    PeerStream& stream = send_request("POST", "/", {}, false);
    stream.send(body, end);
    return stream;
  }
  PeerStream& websocket() {
    PeerStream& stream = open();
    stream.request("CONNECT", "/", {{"sec-websocket-version", "13"}}, "websocket", false);
    return stream;
  }

  /// Reads and writes as much as possible.
  void turn() {
    if (!socket.open()) return;
    if (reads && !gone_ && (codec->wants_bytes() || codec->status() != HttpCodec::Status::kOpen)) {
      socket.read(size_t{1} << 20);
      if (!socket.received.empty()) codec->receive(heap_buffer_of(std::exchange(socket.received, {})));
      if (socket.ended || socket.error != 0) {
        gone_ = true;
        codec->receive_end(socket.error != 0 ? HttpCodec::End::kLost : HttpCodec::End::kOrderly);
      }
    }
    codec->receive(Buffer());
    do {
      if (unsent_.size() == sent_ && codec->has_output()) {
        Buffer out;
        codec->flush(out);
        unsent_ = text_of(out);
        sent_ = 0;
      }
      sent_ += socket.send_some(std::string_view(unsent_).substr(sent_));
    } while (unsent_.size() == sent_ && codec->has_output() && socket.error == 0);
    for (auto& stream : streams) stream->settle();
    const bool all_sent = unsent_.size() == sent_ && !codec->has_output();
    if (all_sent && (codec->status() != HttpCodec::Status::kOpen || codec->output_ended())) socket.shutdown_write();
  }
  /// Whether sent data has not reached the socket.
  bool has_unsent() const { return sent_ < unsent_.size() || codec->has_output(); }
  /// The other side sees a reset.
  void break_off() {
    forget();
    socket.reset();
  }
  void close() {
    forget();
    socket.close();
  }
  /// Whether the other side's SETTINGS have arrived: before, no client of HTTP/2 may request a tunnel.
  bool greeted() const { return !http2_ || static_cast<const Http2Codec&>(*codec).greeted(); }
  /// Whether the other side has ended or reset the connection.
  bool gone() const { return gone_; }
  bool was_reset() const { return socket.error != 0; }

  StreamReceiver& on_stream(HttpStream& stream) override {
    streams.push_back(std::make_unique<PeerStream>(pool_));
    streams.back()->connection = this;
    streams.back()->codec_stream = &stream;
    if (log_) log_->push_back(streams.back().get());
    return *streams.back();
  }

  Peer socket;
  std::unique_ptr<HttpCodec> codec;
  std::deque<std::unique_ptr<PeerStream>> streams;  ///< All streams so far.
  bool reads = true;                                ///< If false, nothing is read from the socket.

 private:
  void forget() {
    for (auto& stream : streams) stream->release();
  }

  ChunkPool& pool_;
  bool http2_;
  std::vector<PeerStream*>* log_;
  bool gone_ = false;
  std::string unsent_;
  size_t sent_ = 0;  // How much of it was sent.
  Http1Options limits1_;
  Http1Counters counts1_;
  Http2Limits limits2_;
  Http2Counters counts2_;
  Http2Codec::Shared shared2_{pool_, limits2_, counts2_};
};

}  // namespace sluice::test
