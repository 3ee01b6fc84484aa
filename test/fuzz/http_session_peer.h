// The ends of http_session_fuzz.cc: a socket that says what it is told to, and looks at what the proxy says.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/http/h1/http1_server.h"
#include "proxy/http/h2/frame.h"
#include "sluice/internal/check.h"
#include "test/support/buffers.h"

namespace sluice::fuzz {

/// Checks that what a peer of HTTP/2 is sent is frames, in their order; what they say is http2_fuzz's.
class Http2Ear {
 public:
  /// `server`: it hears a client, from its preface on.
  explicit Http2Ear(bool server) : server_(server), preface_(server) {}

  void hear(std::string_view bytes) {
    wire_.append(bytes);
    if (preface_) {
      const std::string_view begin = std::string_view(wire_).substr(0, kHttp2Preface.size());
      SLUICE_CHECK(kHttp2Preface.starts_with(begin));
      if (begin.size() < kHttp2Preface.size()) return;
      wire_.erase(0, begin.size());
      preface_ = false;
    }
    size_t at = 0;
    while (wire_.size() - at >= Http2FrameHeader::kBytes) {
      const auto header = Http2FrameHeader::read(std::as_bytes(std::span(wire_).subspan(at)));
      SLUICE_CHECK(header.length <= kHttp2FrameBytes);
      if (wire_.size() - at < Http2FrameHeader::kBytes + header.length) break;
      take(header);
      at += Http2FrameHeader::kBytes + header.length;
    }
    wire_.erase(0, at);
  }

  bool server() const { return server_; }
  /// That was opened last to a server.
  uint32_t last() const { return last_; }

  std::vector<uint32_t> asked;  ///< Streams that were opened to a server, until somebody takes them.

 private:
  void take(const Http2FrameHeader& header) {
    using Type = Http2FrameType;
    const uint32_t id = header.stream;
    if (block_of_ != 0) {
      SLUICE_CHECK(header.type == Type::kContinuation && id == block_of_);
      if (header.has(Http2FrameHeader::kEndHeaders)) block_of_ = 0;
      return;
    }
    SLUICE_CHECK(settings_ || header.type == Type::kSettings);
    switch (header.type) {
      case Type::kHeaders:
        SLUICE_CHECK(id % 2 == 1 && !ended_[id]);
        if (server_ && id > last_) asked.push_back(last_ = id);
        if (!header.has(Http2FrameHeader::kEndHeaders)) block_of_ = id;
        ended_[id] = header.has(Http2FrameHeader::kEndStream);
        return;
      case Type::kData:
        SLUICE_CHECK(id % 2 == 1 && ended_.contains(id) && !ended_[id]);
        ended_[id] = header.has(Http2FrameHeader::kEndStream);
        return;
      case Type::kRstStream:
        SLUICE_CHECK(id != 0 && header.length == 4);
        ended_[id] = true;
        return;
      case Type::kSettings:
        SLUICE_CHECK(id == 0 && header.length % 6 == 0);
        settings_ = true;
        return;
      case Type::kPing:
        SLUICE_CHECK(id == 0 && header.length == 8);
        return;
      case Type::kGoaway:
        SLUICE_CHECK(id == 0 && header.length >= 8);
        return;
      case Type::kWindowUpdate:
        SLUICE_CHECK(header.length == 4);
        return;
      default:
        SLUICE_CHECK(false);  // The proxy has no business with it.
    }
  }

  const bool server_;
  bool preface_;
  bool settings_ = false;
  uint32_t block_of_ = 0, last_ = 0;
  std::string wire_;
  std::map<uint32_t, bool> ended_;  // Streams, and whether the proxy's half of them is over.
};

/// What an endpoint of HTTP/1.1 is sent must be requests, each of which was passed on: nothing that a client or another
/// endpoint says may change their number.
class Http1Ear final : HttpCodec::Acceptor, StreamReceiver {
 public:
  explicit Http1Ear(ChunkPool& pool) : server_(pool, options(), counters_, *this) {}

  void hear(std::string_view bytes) {
    if (tunnel_) return;
    SLUICE_CHECK(server_.status() == HttpCodec::Status::kOpen);
    server_.receive(test::heap_buffer_of(bytes));
    // It answers each request at once, so that it reads the next.
    while (std::exchange(answer_, false)) {
      Head head;
      head.status = 200;
      stream_->send_head(head, true);
      std::exchange(stream_, nullptr)->release();
      server_.receive(Buffer());
    }
    Buffer said;
    while (server_.has_output()) server_.flush(said);
    SLUICE_CHECK(server_.status() != HttpCodec::Status::kFailed);
  }
  ~Http1Ear() {
    if (stream_) stream_->release();
  }

  uint64_t requests = 0;
  uint32_t asked = 0;         ///< Of these, until somebody takes them.
  std::string websocket_key;  ///< That came last.

 private:
  static const Http1Options& options() {
    static const Http1Options wide = [] {
      Http1Options all;
      all.limits = {.start_line_bytes = 64 * 1024,
                    .head_bytes = 64 * 1024,
                    .fields = 1000,
                    .chunk_extension_bytes = 0,
                    .requests = UINT32_MAX};
      all.allow_connect = all.allow_underscores = true;
      all.allow_empty_line = false;
      return all;
    }();
    return wide;
  }
  StreamReceiver& on_stream(HttpStream& stream) override {
    SLUICE_CHECK(stream_ == nullptr);
    stream_ = &stream;
    return *this;
  }
  void on_head(HttpStream&, Head&& head, bool end) override {
    ++requests;
    ++asked;
    tunnel_ = head.method() == "CONNECT" || !head.protocol().empty();
    answer_ = end && !tunnel_;
  }
  void on_body(HttpStream&, Buffer&&, bool end) override { answer_ = end && !tunnel_; }
  void on_trailers(HttpStream&, Fields&&) override { answer_ = true; }
  // Only where it is not a request: hear() says so.
  void on_reset(HttpStream&, ResetReason) override {}
  void on_drained(HttpStream&) override {}

  Http1Counters counters_;
  Http1Server server_;
  HttpStream* stream_ = nullptr;
  bool tunnel_ = false;
  bool answer_ = false;
};

/// One end of a connection to the proxy, or of one from it. Nothing blocks.
class Peer {
 public:
  Peer(int fd, bool speaks_http2, bool server, ChunkPool& pool) : http2(speaks_http2), fd_(fd) {
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (http2) {
      http2_ear = std::make_unique<Http2Ear>(server);
    } else if (server) {
      http1_ear = std::make_unique<Http1Ear>(pool);
    }
  }
  ~Peer() { reset(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool open() const { return fd_ >= 0; }
  /// What the socket does not take waits for turn().
  void say(std::string_view bytes) {
    if (fd_ < 0 || shut_) return;
    if (begin_.size() < kHttp2Preface.size()) begin_.append(bytes.substr(0, kHttp2Preface.size() - begin_.size()));
    unsent_.append(bytes);
    push();
  }
  /// Whether it said or heard something.
  bool turn() {
    const bool said = push();
    static std::array<char, 16384> bytes;
    size_t total = 0;
    while (fd_ >= 0 && reads && !ended_ && total < kBytesPerTurn) {
      const ssize_t n = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) break;
      ended_ = n <= 0;
      if (ended_) return true;
      total += static_cast<size_t>(n);
      hear({bytes.data(), static_cast<size_t>(n)});
    }
    return said || total > 0;
  }
  void half_close() {
    if (fd_ < 0 || std::exchange(shut_, true)) return;
    unsent_.clear();
    ::shutdown(fd_, SHUT_WR);
  }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void reset() {
    if (fd_ < 0) return;
    const linger at_once{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

  /// The stream of HTTP/2 that was opened last.
  uint32_t last_stream() const {
    if (http2_ear && http2_ear->server()) return http2_ear->last() > 0 ? http2_ear->last() : 1;
    return next_stream > 2 ? next_stream - 2 : 1;
  }

  const bool http2;
  bool reads = true;
  bool greeted = false;  ///< Whether it has said its SETTINGS.
  uint32_t next_stream = 1;
  std::unique_ptr<Http2Ear> http2_ear;
  std::unique_ptr<Http1Ear> http1_ear;

 private:
  static constexpr size_t kBytesPerTurn = size_t{1} << 20;
  static constexpr std::string_view kKeyField = "\r\nsec-websocket-key: ";

  bool push() {
    const size_t before = unsent_.size();
    while (fd_ >= 0 && !unsent_.empty()) {
      const ssize_t n = ::send(fd_, unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n <= 0) break;
      unsent_.erase(0, static_cast<size_t>(n));
    }
    return unsent_.size() != before;
  }
  void hear(std::string_view bytes) {
    // A client that does not begin as it should is taken for one of HTTP/1.1.
    if (http2_ear && (http2_ear->server() || begin_ == kHttp2Preface)) http2_ear->hear(bytes);
    if (!http1_ear) return;
    if (const size_t at = bytes.rfind(kKeyField); at != std::string_view::npos) {
      http1_ear->websocket_key = bytes.substr(at + kKeyField.size(), 24);
    }
    http1_ear->hear(bytes);
  }

  int fd_;
  bool ended_ = false, shut_ = false;
  std::string begin_;  // What it said first.
  std::string unsent_;
};

}  // namespace sluice::fuzz
