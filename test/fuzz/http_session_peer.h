// The ends of http_session_fuzz.cc: a socket that sends what it is given, and checks what the proxy sends.
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

/// Checks that the proxy sends valid frames to a peer of HTTP/2, in order; http2_fuzz checks their content.
class Http2Receiver {
 public:
  /// `server`: it receives from a client, from the preface on.
  explicit Http2Receiver(bool server) : server_(server), preface_(server) {}

  void receive(std::string_view bytes) {
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
  /// The stream that was opened last to a server.
  uint32_t last() const { return last_; }

  std::vector<uint32_t> pending;  ///< Streams that were opened to a server, until they are taken.

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
        if (server_ && id > last_) pending.push_back(last_ = id);
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
        SLUICE_CHECK(false);  // The proxy should not use it.
    }
  }

  const bool server_;
  bool preface_;
  bool settings_ = false;
  uint32_t block_of_ = 0, last_ = 0;
  std::string wire_;
  std::map<uint32_t, bool> ended_;  // Streams, and whether the proxy's half of them is over.
};

/// What the proxy sends to an endpoint of HTTP/1.1 must be requests, each of which was forwarded: nothing that a client
/// or another endpoint sends may change their number.
class Http1Receiver final : HttpCodec::Acceptor, StreamReceiver {
 public:
  explicit Http1Receiver(ChunkPool& pool) : server_(pool, options(), counters_, *this) {}

  void receive(std::string_view bytes) {
    if (tunnel_) return;
    SLUICE_CHECK(server_.status() == HttpCodec::Status::kOpen);
    server_.receive(test::heap_buffer_of(bytes));
    // It responds to each request at once, so that it reads the next.
    while (std::exchange(response_due_, false)) {
      Head head;
      head.status = 200;
      stream_->send_head(head, true);
      std::exchange(stream_, nullptr)->release();
      server_.receive(Buffer());
    }
    Buffer output;
    while (server_.has_output()) server_.flush(output);
    SLUICE_CHECK(server_.status() != HttpCodec::Status::kFailed);
  }
  ~Http1Receiver() {
    if (stream_) stream_->release();
  }

  uint64_t requests = 0;
  uint32_t pending = 0;       ///< The number of these, until they are taken.
  std::string websocket_key;  ///< The last one received.

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
    ++pending;
    tunnel_ = head.method() == "CONNECT" || !head.protocol().empty();
    response_due_ = end && !tunnel_;
  }
  void on_body(HttpStream&, Buffer&&, bool end) override { response_due_ = end && !tunnel_; }
  void on_trailers(HttpStream&, Fields&&) override { response_due_ = true; }
  // Called only if it is not a request: receive() reports that.
  void on_reset(HttpStream&, ResetReason) override {}
  void on_drained(HttpStream&) override {}

  Http1Counters counters_;
  Http1Server server_;
  HttpStream* stream_ = nullptr;
  bool tunnel_ = false;
  bool response_due_ = false;
};

/// One end of a connection to the proxy, or of one from it. Nothing blocks.
class Peer {
 public:
  Peer(int fd, bool speaks_http2, bool server, ChunkPool& pool) : http2(speaks_http2), fd_(fd) {
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (http2) {
      http2_receiver = std::make_unique<Http2Receiver>(server);
    } else if (server) {
      http1_receiver = std::make_unique<Http1Receiver>(pool);
    }
  }
  ~Peer() { reset(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool open() const { return fd_ >= 0; }
  /// Data that the socket does not take waits for turn().
  void send(std::string_view bytes) {
    if (fd_ < 0 || shut_) return;
    if (begin_.size() < kHttp2Preface.size()) begin_.append(bytes.substr(0, kHttp2Preface.size() - begin_.size()));
    unsent_.append(bytes);
    push();
  }
  /// Returns whether it sent or received something.
  bool turn() {
    const bool sent = push();
    static std::array<char, 16384> bytes;
    size_t total = 0;
    while (fd_ >= 0 && reads && !ended_ && total < kBytesPerTurn) {
      const ssize_t n = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) break;
      ended_ = n <= 0;
      if (ended_) return true;
      total += static_cast<size_t>(n);
      receive({bytes.data(), static_cast<size_t>(n)});
    }
    return sent || total > 0;
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

  /// The HTTP/2 stream that was opened last.
  uint32_t last_stream() const {
    if (http2_receiver && http2_receiver->server()) return http2_receiver->last() > 0 ? http2_receiver->last() : 1;
    return next_stream > 2 ? next_stream - 2 : 1;
  }

  const bool http2;
  bool reads = true;
  bool greeted = false;  ///< Whether it has sent its SETTINGS.
  uint32_t next_stream = 1;
  std::unique_ptr<Http2Receiver> http2_receiver;
  std::unique_ptr<Http1Receiver> http1_receiver;

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
  void receive(std::string_view bytes) {
    // A client without the preface is treated as one of HTTP/1.1.
    if (http2_receiver && (http2_receiver->server() || begin_ == kHttp2Preface)) http2_receiver->receive(bytes);
    if (!http1_receiver) return;
    if (const size_t at = bytes.rfind(kKeyField); at != std::string_view::npos) {
      http1_receiver->websocket_key = bytes.substr(at + kKeyField.size(), 24);
    }
    http1_receiver->receive(bytes);
  }

  int fd_;
  bool ended_ = false, shut_ = false;
  std::string begin_;  // What it sent first.
  std::string unsent_;
};

}  // namespace sluice::fuzz
