#pragma once

// An HTTP proxy, an origin behind it and a client in front of it, all in this process: for counting what requests cost.
// Origin and client allocate nothing once their connections are there.

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test/steady_state/http_clients.h"
#include "test/support/forwarding.h"

namespace sluice::test {

/// Answers every request of HTTP/1.1, on any number of connections.
class HttpOrigin {
 public:
  explicit HttpOrigin(Bodies bodies) : bodies_(bodies) {
    answer_ = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(bodies.response) + "\r\n\r\n";
    answer_.append(bodies.response, 'x');
    listen_fd_ = listen_anywhere(address_);
    acceptor_ = std::thread([this] {
      for (int fd; (fd = accept(listen_fd_, nullptr, nullptr)) >= 0;) {
        connections_.emplace_back([this, fd] { serve(fd); });
      }
    });
  }
  /// The proxy must have gone.
  ~HttpOrigin() {
    shutdown(listen_fd_, SHUT_RDWR);
    acceptor_.join();
    for (std::thread& connection : connections_) connection.join();
    close(listen_fd_);
  }
  uint16_t port() const { return ntohs(address_.sin_port); }

 private:
  void serve(int fd) const {
    Inbox inbox(fd);
    for (char method; inbox.take_head(method);) {
      const size_t body = method == 'P' ? bodies_.request : 0;
      if (!inbox.wait_for(body)) break;
      inbox.take(body);
      if (!send_all(fd, answer_)) break;
    }
    close(fd);
  }

  const Bodies bodies_;
  std::string answer_;
  sockaddr_in address_;
  int listen_fd_;
  std::thread acceptor_;
  std::vector<std::thread> connections_;  // Of the acceptor's thread, while it runs.
};

template <class Client>
class HttpForwarding {
 public:
  /// `configure` may change what its listener does.
  HttpForwarding(RingsMode rings, Bodies bodies, void (*configure)(config::Http&) = nullptr) : origin_(bodies) {
    sockaddr_in address;
    const int listen_fd = listen_anywhere(address);
    auto config = config::from_flags({.listen = "127.0.0.1:1", .to = {"127.0.0.1:" + std::to_string(origin_.port())}});
    SLUICE_CHECK(config.ok());
    config_ = *std::move(config);
    config_.listeners[0].http->http1.max_requests = config_.listeners[0].http->http2.max_requests = 0;
    config_.upstreams[0].pool.max_requests = 0;
    if (configure) configure(*config_.listeners[0].http);
    if (config_.listeners[0].http->access_log) {
      auto logs = AccessLogs::open({config_.listeners[0].http->access_log->file}, 1);
      SLUICE_CHECK(logs.ok());
      logs_ = *std::move(logs);
    }
    listeners_.push_back(std::make_unique<ListenerState>(config_.listeners[0], config_.upstreams));
    upstreams_.push_back(std::make_unique<UpstreamState>(config_.upstreams[0]));
    const auto features = probe_features(rings);
    SLUICE_CHECK(features.ok());
    worker_ = std::make_unique<WorkerThread>(
        Worker::Options{.features = *features},
        WorkerThread::Shared{
            config_, connections_, listeners_, upstreams_, counters_, {logs_ ? &logs_->writer(0, 0) : nullptr}},
        std::vector<int>{listen_fd}, std::vector<bool>{false});
    SLUICE_CHECK(worker_->wait_until_ready().ok());

    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    SLUICE_CHECK(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    client_ = std::make_unique<Client>(fd_, bodies);
  }
  ~HttpForwarding() {
    close(fd_);
    worker_->drain();
    worker_.reset();
  }

  void requests(int count) {
    for (int i = 0; i < count; i += Client::kAtOnce) client_->round();
  }

  /// The worker's figures of this moment.
  const WorkerGauges& gauges() {
    const uint64_t before = worker_->snapshots();
    worker_->request_snapshot();
    while (worker_->snapshots() == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return counters_.gauges;
  }

 private:
  HttpOrigin origin_;
  config::Config config_;
  ConnectionLimit connections_{0};
  std::vector<std::unique_ptr<ListenerState>> listeners_;
  std::vector<std::unique_ptr<UpstreamState>> upstreams_;
  WorkerCounters counters_{1, {1}};
  std::unique_ptr<AccessLogs> logs_;
  std::unique_ptr<WorkerThread> worker_;
  int fd_;
  std::unique_ptr<Client> client_;
};

}  // namespace sluice::test
