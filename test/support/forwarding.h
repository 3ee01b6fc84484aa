#pragma once

// A proxy, an echo server behind it and a client in front of it, all in this process: for counting what forwarding
// costs.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "net/features.h"
#include "net/listener.h"
#include "pool/check.h"
#include "proxy/config/from_flags.h"
#include "proxy/listener/listener_state.h"
#include "proxy/worker_thread.h"

namespace sluice::test {

inline int listen_anywhere(sockaddr_in& address) {
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto fd = open_listener(reinterpret_cast<sockaddr*>(&address), sizeof address, {});
  SLUICE_CHECK(fd.ok());
  socklen_t length = sizeof address;
  getsockname(*fd, reinterpret_cast<sockaddr*>(&address), &length);
  return *fd;
}

class Forwarding {
 public:
  explicit Forwarding(RingsMode rings = RingsMode::kAuto, ChunkPool::Source source = ChunkPool::Source::kArena) {
    sockaddr_in echo_address;
    echo_fd_ = listen_anywhere(echo_address);
    echo_ = std::thread([fd = echo_fd_] { echo_one(fd); });

    const int listen_fd = listen_anywhere(proxy_address_);
    auto config = config::from_flags(
        {.listen = "127.0.0.1:1", .to = {"127.0.0.1:" + std::to_string(ntohs(echo_address.sin_port))}, .tcp = true});
    SLUICE_CHECK(config.ok());
    config_ = *std::move(config);
    listeners_.push_back(std::make_unique<ListenerState>(config_.listeners[0], config_.upstreams));
    upstreams_.push_back(std::make_unique<UpstreamState>(config_.upstreams[0]));
    const auto features = probe_features(rings);
    SLUICE_CHECK(features.ok());
    worker_ =
        std::make_unique<WorkerThread>(Worker::Options{.features = *features, .pool_source = source},
                                       WorkerThread::Shared{config_, connections_, listeners_, upstreams_, counters_},
                                       std::vector<int>{listen_fd}, std::vector<bool>{false});
    SLUICE_CHECK(worker_->wait_until_ready().ok());

    client_ = socket(AF_INET, SOCK_STREAM, 0);
    SLUICE_CHECK(connect(client_, reinterpret_cast<sockaddr*>(&proxy_address_), sizeof proxy_address_) == 0);
    const int on = 1;
    setsockopt(client_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Forwarding() {
    close(client_);
    echo_.join();
    close(echo_fd_);
    worker_->drain();
    worker_.reset();
  }

  /// Sends `bytes` bytes through the proxy and waits for all of them to come back.
  void round_trip(size_t bytes) {
    for (size_t sent = 0; sent < bytes;) {
      const ssize_t n = send(client_, data_.data(), std::min(bytes - sent, data_.size()), MSG_NOSIGNAL);
      SLUICE_CHECK(n > 0);
      sent += static_cast<size_t>(n);
      for (size_t received = 0; received < static_cast<size_t>(n);) {
        const ssize_t m = recv(client_, data_.data(), data_.size(), 0);
        SLUICE_CHECK(m > 0);
        received += static_cast<size_t>(m);
      }
    }
  }

  /// The worker's figures of this moment.
  const WorkerGauges& gauges() {
    const uint64_t before = worker_->snapshots();
    worker_->request_snapshot();
    while (worker_->snapshots() == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return counters_.gauges;
  }

 private:
  static void echo_one(int listen_fd) {
    const int fd = accept(listen_fd, nullptr, nullptr);
    std::array<char, 65536> data;
    for (;;) {
      const ssize_t n = recv(fd, data.data(), data.size(), 0);
      if (n <= 0) break;
      for (ssize_t sent = 0; sent < n;) {
        const ssize_t m = send(fd, data.data() + sent, static_cast<size_t>(n - sent), MSG_NOSIGNAL);
        if (m <= 0) break;
        sent += m;
      }
    }
    close(fd);
  }

  config::Config config_;
  ConnectionLimit connections_{0};
  std::vector<std::unique_ptr<ListenerState>> listeners_;
  std::vector<std::unique_ptr<UpstreamState>> upstreams_;
  WorkerCounters counters_{1, {1}};
  std::unique_ptr<WorkerThread> worker_;
  int echo_fd_ = -1;
  std::thread echo_;
  sockaddr_in proxy_address_;
  int client_ = -1;
  std::array<char, 65536> data_{};
};

}  // namespace sluice::test
