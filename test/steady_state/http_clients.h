#pragma once

// Clients of HTTP/1.1 and HTTP/2 that allocate nothing once they are connected. They do not check responses: other
// tests do.

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/internal/check.h"

namespace sluice::test {

/// The sizes of the bodies of a request and its response.
struct Bodies {
  size_t request;  ///< 0: it is a GET.
  size_t response;
  friend std::ostream& operator<<(std::ostream& out, const Bodies& bodies) {
    return out << bodies.request << " and " << bodies.response << " bytes";
  }
};

/// Returns false if the other side has ended.
inline bool send_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = send(fd, data.data(), data.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    data.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

/// Received data that was not taken yet.
class Inbox {
 public:
  explicit Inbox(int fd) : fd_(fd) {}
  std::string_view data() const { return std::string_view(data_.data(), last_).substr(first_); }
  void take(size_t bytes) { first_ += bytes; }
  /// Waits until there are at least `bytes`. Returns false if the other side has ended.
  bool wait_for(size_t bytes) {
    while (data().size() < bytes) {
      if (first_ > 0) std::memmove(data_.data(), data_.data() + first_, last_ - first_);
      last_ -= std::exchange(first_, 0);
      SLUICE_CHECK(last_ < data_.size());
      const ssize_t n = recv(fd_, data_.data() + last_, data_.size() - last_, 0);
      if (n <= 0) return false;
      last_ += static_cast<size_t>(n);
    }
    return true;
  }
  /// Waits for a head of HTTP/1.1 and takes it; `first` is its first byte. Returns false if the other side has ended.
  bool take_head(char& first) {
    for (size_t bytes = 1; wait_for(bytes); bytes = data().size() + 1) {
      const size_t end = data().find("\r\n\r\n");
      if (end == std::string_view::npos) continue;
      first = data()[0];
      take(end + 4);
      return true;
    }
    return false;
  }

 private:
  int fd_;
  size_t first_ = 0;
  size_t last_ = 0;
  std::array<char, 128 * 1024> data_;
};

class Http1Client {
 public:
  static constexpr int kAtOnce = 1;

  Http1Client(int fd, Bodies bodies) : fd_(fd), bodies_(bodies), remote_frees_(fd) {
    request_ = bodies.request
                   ? "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(bodies.request) + "\r\n\r\n"
                   : "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    request_.append(bodies.request, 'x');
  }
  /// Sends one request and reads its response.
  void round() {
    char first;
    SLUICE_CHECK(send_all(fd_, request_) && remote_frees_.take_head(first) && remote_frees_.wait_for(bodies_.response));
    remote_frees_.take(bodies_.response);
    SLUICE_CHECK(remote_frees_.data().empty());
  }

 private:
  int fd_;
  Bodies bodies_;
  Inbox remote_frees_;
  std::string request_;
};

class Http2Client {
 public:
  static constexpr int kAtOnce = 16;

  Http2Client(int fd, Bodies bodies) : fd_(fd), bodies_(bodies), remote_frees_(fd) {
    // Windows of 2^31 - 1, enough for everything that the client will receive.
    std::string start = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    append_frame(start, kSettings, 0, 0, std::string_view("\0\4\x7f\xff\xff\xff", 6));
    append_frame(start, kWindowUpdate, 0, 0, std::string_view("\x7f\xff\0\0", 4));
    // GET or POST, http, /, the authority (RFC 7541).
    fields_ = bodies.request ? "\x83\x86\x84\x01\x01"
                               "a"
                             : "\x82\x86\x84\x01\x01"
                               "a";
    const std::string length = std::to_string(bodies.request);
    if (bodies.request)
      fields_ += std::string("\x0f\x0d") + static_cast<char>(length.size()) + length;  // content-length
    body_.assign(bodies.request, 'x');
    SLUICE_CHECK(bodies.request <= kMaxFrame && send_all(fd_, start));
    out_.reserve(kAtOnce * (2 * kFrameHead + fields_.size() + bodies.request));
  }
  /// Sends kAtOnce requests and reads their responses.
  void round() {
    while (send_window_ < static_cast<int64_t>(kAtOnce * bodies_.request)) take_frame();
    out_.clear();
    for (int i = 0; i < kAtOnce; ++i, stream_ += 2) {
      append_frame(out_, kHeaders, bodies_.request ? kEndHeaders : kEndHeaders | kEndStream, stream_, fields_);
      if (bodies_.request) append_frame(out_, kData, kEndStream, stream_, body_);
    }
    send_window_ -= static_cast<int64_t>(kAtOnce * bodies_.request);
    SLUICE_CHECK(send_all(fd_, out_));
    received_ = 0;
    for (open_ = kAtOnce; open_ > 0;) take_frame();
    SLUICE_CHECK(received_ == kAtOnce * bodies_.response);
  }

 private:
  static constexpr size_t kFrameHead = 9, kMaxFrame = 16384;
  static constexpr uint8_t kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kGoaway = 7, kWindowUpdate = 8;
  static constexpr uint8_t kEndStream = 1, kAck = 1, kEndHeaders = 4;

  static void append_number(std::string& out, uint32_t value, int bytes) {
    while (bytes-- > 0) out += static_cast<char>(value >> (8 * bytes));
  }
  static void append_frame(std::string& out, uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
    append_number(out, static_cast<uint32_t>(payload.size()), 3);
    append_number(out, type, 1);
    append_number(out, flags, 1);
    append_number(out, stream, 4);
    out += payload;
  }
  static uint32_t number(std::string_view bytes) {
    uint32_t value = 0;
    for (char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
    return value;
  }

  void take_frame() {
    SLUICE_CHECK(remote_frees_.wait_for(kFrameHead));
    const size_t length = number(remote_frees_.data().substr(0, 3));
    SLUICE_CHECK(remote_frees_.wait_for(kFrameHead + length));
    const std::string_view frame = remote_frees_.data();
    const auto type = static_cast<uint8_t>(frame[3]), flags = static_cast<uint8_t>(frame[4]);
    const uint32_t stream = number(frame.substr(5, 4));
    SLUICE_CHECK(type != kReset && type != kGoaway);
    if (type == kData) received_ += length;
    if (type <= kHeaders && (flags & kEndStream)) --open_;
    if (type == kWindowUpdate && stream == 0) send_window_ += number(frame.substr(kFrameHead, 4));
    if (type == kSettings && !(flags & kAck)) SLUICE_CHECK(send_all(fd_, std::string_view("\0\0\0\4\1\0\0\0\0", 9)));
    remote_frees_.take(kFrameHead + length);
  }

  int fd_;
  Bodies bodies_;
  Inbox remote_frees_;
  std::string fields_, body_, out_;
  uint32_t stream_ = 1;
  int64_t send_window_ = 65535;
  int open_ = 0;
  size_t received_ = 0;
};

}  // namespace sluice::test
