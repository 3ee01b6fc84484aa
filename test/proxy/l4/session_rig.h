// An L4 proxy within the test: one worker whose loop the test runs, an acceptor, plain clients and plain origins.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/l4/l4_session.h"
#include "proxy/listener/client_acceptor.h"
#include "test/net/loop.h"

namespace sluice::test {

inline config::Address loopback_address(uint16_t port) {
  return config::Address::parse("127.0.0.1:" + std::to_string(port)).value();
}

/// A server that accepts all connections.
class Origin {
 public:
  Origin() : fd_(tcp_listen()), port_(port_of(fd_)) {}
  ~Origin() { stop(); }
  uint16_t port() const { return port_; }
  void accept() {
    for (;;) {
      if (fd_ < 0) return;
      pollfd ready{fd_, POLLIN, 0};
      if (poll(&ready, 1, 0) != 1) return;
      peers.emplace_back(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
    }
  }
  /// Refuses connections from now on.
  void stop() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  std::deque<Peer> peers;  ///< They do not move when more arrive.

 private:
  int fd_;
  uint16_t port_;
};

/// Set the public fields, add endpoints, start(). At the end all sessions must be over and accounted for.
class SessionRig {
 public:
  SessionRig() {
    listener.name = "edge";
    listener.addresses = {loopback_address(0)};
    listener.tcp.emplace().forward = "origin";
    upstreams.push_back({.name = "origin"});
    options.max_sockets = 1024;
    options.features = kernel_features();
  }
  ~SessionRig() {
    if (!acceptor_) return;
    loop_->ring().stop_injecting();
    for (auto& origin : origins_) {
      for (Peer& peer : origin->peers) peer.close();
    }
    acceptor_->stop_accepting();
    acceptor_->shut_down();
    loop_->until([this] { return acceptor_->idle(); });
    EXPECT_EQ(loop_->chunks_out(), 0u);
    EXPECT_EQ(state_->limits->connections.active(), 0u);
    EXPECT_EQ(global_->active(), 0u);
    for (auto& upstream : upstreams_) {
      for (size_t i = 0; i < upstream->state->size(); ++i) EXPECT_EQ(upstream->state->endpoint(i).active.load(), 0u);
    }
    EXPECT_EQ(counters().accepted.value(), sum_of_ends() + sum_of_refusals());
    acceptor_.reset();
    handshakers_->close();
    loop_->until([this] { return handshakers_->idle(); });
    handshakers_.reset();
  }

  Origin& add_origin(size_t upstream = 0) {
    origins_.push_back(std::make_unique<Origin>());
    add_endpoint(origins_.back()->port(), upstream);
    return *origins_.back();
  }
  void add_endpoint(uint16_t port, size_t upstream = 0) {
    upstreams[upstream].endpoints.push_back({.address = loopback_address(port)});
  }

  void start() {
    loop_.emplace(options);
    state_ = std::make_shared<ListenerState>(listener, upstreams);
    global_ = std::make_unique<ConnectionLimit>(global_limit);
    counters_.emplace(config::Config{.rate_limits = rate_limits, .listeners = {listener}, .upstreams = upstreams});
    WorkerRateLimits limits;
    for (size_t i = 0; i < rate_limits.size(); ++i) {
      limits.push_back({std::make_shared<RateLimiter>(rate_limits[i], nullptr), counters_->rate_limits[i]});
    }
    for (size_t i = 0; i < upstreams.size(); ++i) {
      upstreams_.push_back(
          std::make_shared<WorkerUpstream>(std::make_shared<UpstreamState>(upstreams[i]), 0, *counters_, i));
    }
    const absl::StatusOr<int> fd = open_listener(listener.addresses[0].data(), listener.addresses[0].length(), {});
    ASSERT_TRUE(fd.ok()) << fd.status();
    if (listener.addresses[0].family() == AF_INET) port_ = port_of(*fd);
    handshakers_ = std::make_unique<HandshakerServices>(loop_->worker());
    acceptor_ = std::make_unique<ClientAcceptor>(
        ClientAcceptor::Context{loop_->worker(), *global_, state_, upstreams_, *handshakers_, counters_->listeners[0],
                                counters_->http_listeners[0], counters_->latencies[0], descriptor_room, other_backlogs,
                                /*sockets=*/1, counters_->resets, limits},
        std::make_unique<L4SessionFactory>(*state_->config, AccessLogTarget(/*lines=*/nullptr), limits),
        std::vector<ListenSocket>{{.fd = *fd, .family = listener.addresses[0].family()}});
    acceptor_->start();
    loop_->settle(2);
  }

  Peer connect() const { return Peer(tcp_connect(port_)); }
  bool until(const std::function<bool()>& done) {
    return loop_->until([&] {
      for (auto& origin : origins_) origin->accept();
      return done();
    });
  }
  void settle(int turns = 8) {
    for (int i = 0; i < turns; ++i) {
      for (auto& origin : origins_) origin->accept();
      loop_->settle(1);
    }
  }
  /// The `n`-th connection of an origin, once it has arrived.
  Peer& peer_of(Origin& origin, size_t n = 0) {
    until([&] { return origin.peers.size() > n; });
    SLUICE_CHECK(origin.peers.size() > n);
    return origin.peers[n];
  }
  bool expect_received(Peer& peer, const std::string& bytes) {
    const bool came = until([&] {
      peer.read();
      return peer.received.size() >= bytes.size() || peer.ended || peer.error != 0;
    });
    EXPECT_EQ(peer.received, bytes);
    return came && peer.received == bytes;
  }
  bool expect_end(Peer& peer) {
    until([&] {
      peer.read();
      return peer.ended || peer.error != 0;
    });
    EXPECT_EQ(peer.error, 0) << strerror(peer.error);
    return peer.ended;
  }
  void expect_reset(Peer& peer) {
    until([&] {
      peer.read();
      return peer.ended || peer.error != 0;
    });
    EXPECT_EQ(peer.error, ECONNRESET);
  }

  uint64_t ended(SessionEnd end) { return counters().ended[static_cast<size_t>(end)].value(); }
  uint64_t refused(Refusal refusal) { return counters().refused[static_cast<size_t>(refusal)].value(); }
  uint64_t connect_errors(size_t endpoint, ConnectError error) {
    return this->endpoint(endpoint).connect_errors[static_cast<size_t>(error)].value();
  }
  uint64_t sum_of_ends() {
    uint64_t sum = 0;
    for (const Counter& counter : counters().ended) sum += counter.value();
    return sum;
  }
  uint64_t sum_of_refusals() {
    uint64_t sum = 0;
    for (const Counter& counter : counters().refused) sum += counter.value();
    return sum;
  }
  /// Waits until that many sessions have ended so, and no other is left; nothing else may have been counted.
  void expect_only(SessionEnd end, uint64_t times = 1) {
    until([&] { return sum_of_ends() >= times && state_->limits->connections.active() == 0; });
    for (size_t i = 0; i < kSessionEndCount; ++i) {
      const auto which = static_cast<SessionEnd>(i);
      EXPECT_EQ(ended(which), which == end ? times : 0u) << session_end_name(which);
    }
  }

  Loop& loop() { return *loop_; }
  ClientAcceptor& acceptor() { return *acceptor_; }
  ListenerState& state() { return *state_; }
  ConnectionLimit& global() { return *global_; }
  UpstreamState& upstream_state(size_t i = 0) { return *upstreams_[i]->state; }
  ListenerCounters& counters() { return *counters_->listeners[0]; }
  RateLimitCounters& rate_limit(size_t i) { return *counters_->rate_limits[i]; }
  EndpointCounters& endpoint(size_t i, size_t upstream = 0) { return *counters_->upstreams[upstream][i]; }
  uint16_t port() const { return port_; }

  config::Listener listener;
  std::vector<config::RateLimit> rate_limits;
  std::vector<config::Upstream> upstreams;
  uint32_t global_limit = 0;
  uint32_t descriptor_room = UINT32_MAX;
  uint64_t other_backlogs = 0;
  Worker::Options options;

 private:
  std::optional<Loop> loop_;
  std::vector<std::unique_ptr<Origin>> origins_;
  std::shared_ptr<ListenerState> state_;
  std::unique_ptr<ConnectionLimit> global_;
  std::optional<WorkerCounters> counters_;
  WorkerUpstreams upstreams_;
  std::unique_ptr<HandshakerServices> handshakers_;
  std::unique_ptr<ClientAcceptor> acceptor_;
  uint16_t port_ = 0;
};

}  // namespace sluice::test
