#pragma once

// A proxy, an echo server behind it and a client in front of it, all in this process: for counting the costs of
// forwarding.

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "proxy/config/load/from_flags.h"
#include "test/support/test_proxy.h"

namespace sluice::test {

/// Listeners besides the one for clients: adds them to the configuration, and their sockets to the list.
using MoreListeners = std::function<void(config::Config&, std::vector<int>& listen_fds)>;

class Forwarding {
 public:
  explicit Forwarding(RingsMode rings = RingsMode::kAuto, ChunkPool::Source source = ChunkPool::Source::kArena,
                      const MoreListeners& more = nullptr) {
    sockaddr_in echo_address, proxy_address;
    echo_fd_ = listen_anywhere(echo_address);
    echo_ = std::thread([fd = echo_fd_] { echo_one(fd); });

    std::vector<int> listen_fds = {listen_anywhere(proxy_address)};
    auto config = config::from_flags({.listen = "127.0.0.1:1", .to = {text_of(echo_address)}, .tcp = true});
    SLUICE_CHECK(config.ok());
    if (more) more(*config, listen_fds);
    const auto features = probe_features(rings);
    SLUICE_CHECK(features.ok());
    proxy_.emplace(*std::move(config), std::move(listen_fds),
                   Worker::Options{.features = *features, .pool_source = source, .decay_ms = kNoDecayMs});
    client_ = connect_to(proxy_address);
  }
  ~Forwarding() {
    close(client_);
    echo_.join();
    close(echo_fd_);
  }

  /// Sends `bytes` bytes through the proxy and waits for all of them to return.
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

  TestProxy& proxy() { return *proxy_; }

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

  int echo_fd_ = -1;
  std::thread echo_;
  std::optional<TestProxy> proxy_;
  int client_ = -1;
  std::array<char, 65536> data_{};
};

}  // namespace sluice::test
