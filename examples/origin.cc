// A small HTTP/1.1 origin on the net layer: responds to each request with a page that describes it, keeps connections
// alive, and serves /bytes/N with N bytes. tools/demo uses it behind the proxy; it is also an example of a server on
// Worker and Socket.
//
//     origin 127.0.0.1:9000

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "net/features.h"
#include "net/listener.h"
#include "net/socket.h"
#include "net/worker.h"
#include <sluice/buffer.h>

namespace {

using sluice::Buffer;
using sluice::Socket;
using sluice::Worker;

constexpr size_t kMaxRequestBytes = 16 * 1024;
constexpr size_t kMaxBodyBytes = size_t{1} << 30;
// The body is sent in pieces: the next is made when the previous one was sent.
constexpr size_t kPieceBytes = 256 * 1024;

class Connection final : public Socket::Owner {
 public:
  Connection(Worker& worker, int fd) : worker_(worker), socket_(worker, *this) {
    socket_.adopt(fd);
    socket_.start_reading();
  }

 private:
  void on_connected(Socket&, int) override {}
  void on_error(Socket&, int) override { socket_.close(); }
  void on_closed(Socket&) override {
    worker_.defer([](void* self) { delete static_cast<Connection*>(self); }, this);
  }
  void on_end(Socket&) override {
    ended_ = true;
    if (body_left_ == 0) socket_.shutdown_write();
    close_when_done();
  }
  void on_sent(Socket&) override {
    send_piece();
    close_when_done();
  }
  void close_when_done() {
    if (ended_ && body_left_ == 0 && socket_.queued() == 0) socket_.close();
  }

  void on_data(Socket&, Buffer&& data) override {
    request_.append(std::move(data));
    // One request at a time; a pipelining client waits.
    while (body_left_ == 0 && answer_one()) {
    }
    if (request_.size() > kMaxRequestBytes) socket_.close();
  }

  bool answer_one() {
    std::string head(std::min(request_.size(), kMaxRequestBytes), '\0');
    request_.copy_out(0, std::as_writable_bytes(std::span(head)));
    const size_t end = head.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    request_.trim_front(end + 4);
    head.resize(end);
    const std::string_view line = std::string_view(head).substr(0, head.find("\r\n"));
    const size_t path = line.find(' ');
    const std::string_view target = line.substr(path + 1, line.rfind(' ') - path - 1);
    answer(target, line);
    return true;
  }

  void answer(std::string_view target, std::string_view line) {
    std::string body;
    constexpr std::string_view kBytes = "/bytes/";
    size_t bytes = 0;
    if (target.starts_with(kBytes)) {
      std::from_chars(target.data() + kBytes.size(), target.data() + target.size(), bytes);
      bytes = std::min(bytes, kMaxBodyBytes);
    } else {
      body = "Hello from the origin behind Sluice. You asked: " + std::string(line) + "\n";
      bytes = body.size();
    }
    const std::string reply =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n" + body;
    body_left_ = bytes - body.size();
    send(reply);
    send_piece();
  }

  void send(std::string_view text) {
    Buffer out;
    if (!out.append_copy(worker_.pool(), std::as_bytes(std::span(text)))) return socket_.close();
    socket_.send(std::move(out));
  }

  void send_piece() {
    if (body_left_ == 0 || socket_.queued() >= kPieceBytes) return;
    const size_t piece = std::min(body_left_, kPieceBytes);
    body_left_ -= piece;
    send(std::string(piece, 'x'));
  }

  Worker& worker_;
  Socket socket_;
  Buffer request_;
  size_t body_left_ = 0;
  bool ended_ = false;
};

class Origin final : public sluice::Listener::Owner {
 public:
  Origin(Worker& worker, int fd) : worker_(worker), listener_(worker.ring(), worker.timers(), *this, fd, false) {
    listener_.start();
  }

 private:
  void on_accepted(sluice::Listener&, int fd) override { new Connection(worker_, fd); }
  void on_accept_paused(sluice::Listener&, int) override {}
  Worker& worker_;
  sluice::Listener listener_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string address = argc > 1 ? argv[1] : "127.0.0.1:9000";
  const size_t colon = address.rfind(':');
  sockaddr_in listen_on{};
  listen_on.sin_family = AF_INET;
  if (colon == std::string::npos || inet_pton(AF_INET, address.substr(0, colon).c_str(), &listen_on.sin_addr) != 1) {
    std::fprintf(stderr, "usage: origin [IPV4:PORT]\n");
    return 2;
  }
  listen_on.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  signal(SIGPIPE, SIG_IGN);

  const auto features = sluice::probe_features(sluice::RingsMode::kAuto);
  auto worker = features.ok() ? Worker::open({.features = *features}) : features.status();
  if (!worker.ok()) {
    std::fprintf(stderr, "origin: %s\n", std::string(worker.status().message()).c_str());
    return 1;
  }
  const auto fd = sluice::open_listener(reinterpret_cast<sockaddr*>(&listen_on), sizeof listen_on, {});
  if (!fd.ok()) {
    std::fprintf(stderr, "origin: cannot listen on %s: %s\n", address.c_str(),
                 std::string(fd.status().message()).c_str());
    return 1;
  }
  Origin origin(**worker, *fd);
  (*worker)->run();
}
