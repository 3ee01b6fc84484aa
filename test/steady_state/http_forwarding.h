#pragma once

// An HTTP proxy, an origin behind it and a client in front of it, all in this process: for counting the costs of
// requests. Origin and client allocate nothing once they are connected.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "test/steady_state/http_clients.h"
#include "test/support/forwarding.h"

namespace sluice::test {

/// Responds to every request of HTTP/1.1, on any number of connections.
class HttpOrigin {
 public:
  explicit HttpOrigin(Bodies bodies) : bodies_(bodies) {
    response_ = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(bodies.response) + "\r\n\r\n";
    response_.append(bodies.response, 'x');
    listen_fd_ = listen_anywhere(address_);
    acceptor_ = std::thread([this] {
      for (int fd; (fd = accept(listen_fd_, nullptr, nullptr)) >= 0;) {
        connections_.emplace_back([this, fd] { serve(fd); });
      }
    });
  }
  /// The proxy must be destroyed before.
  ~HttpOrigin() {
    shutdown(listen_fd_, SHUT_RDWR);
    acceptor_.join();
    for (std::thread& connection : connections_) connection.join();
    close(listen_fd_);
  }
  uint16_t port() const { return ntohs(address_.sin_port); }

 private:
  void serve(int fd) const {
    Inbox remote_frees(fd);
    for (char method; remote_frees.take_head(method);) {
      const size_t body = method == 'P' ? bodies_.request : 0;
      if (!remote_frees.wait_for(body)) break;
      remote_frees.take(body);
      if (!send_all(fd, response_)) break;
    }
    close(fd);
  }

  const Bodies bodies_;
  std::string response_;
  sockaddr_in address_;
  int listen_fd_;
  std::thread acceptor_;
  std::vector<std::thread> connections_;  // Used by the acceptor's thread, while it runs.
};

template <class Client>
class HttpForwarding {
 public:
  /// `configure` may change the listener, and `more` add others.
  HttpForwarding(RingsMode rings, Bodies bodies, void (*configure)(config::Http&) = nullptr,
                 const MoreListeners& more = nullptr)
      : origin_(bodies) {
    sockaddr_in address;
    std::vector<int> listen_fds = {listen_anywhere(address)};
    auto config = config::from_flags({.listen = "127.0.0.1:1", .to = {"127.0.0.1:" + std::to_string(origin_.port())}});
    SLUICE_CHECK(config.ok());
    config::Http& http = *config->listeners[0].http;
    http.http1.max_requests = http.http2.max_requests = 0;
    config->upstreams[0].pool.max_requests = 0;
    if (configure) configure(http);
    if (more) more(*config, listen_fds);
    const auto features = probe_features(rings);
    SLUICE_CHECK(features.ok());
    proxy_.emplace(*std::move(config), std::move(listen_fds),
                   Worker::Options{.features = *features, .decay_ms = kNoDecayMs});
    fd_ = connect_to(address);
    client_ = std::make_unique<Client>(fd_, bodies);
  }
  ~HttpForwarding() { close(fd_); }

  void requests(int count) {
    for (int i = 0; i < count; i += Client::kAtOnce) client_->round();
  }

  TestProxy& proxy() { return *proxy_; }

 private:
  HttpOrigin origin_;
  std::optional<TestProxy> proxy_;
  int fd_;
  std::unique_ptr<Client> client_;
};

}  // namespace sluice::test
