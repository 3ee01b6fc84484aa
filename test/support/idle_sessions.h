// Sessions without sockets, to see what acceptors do with very many.
#pragma once

#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "net/features.h"
#include "net/listener.h"
#include "net/worker.h"
#include "proxy/listener/client_acceptor.h"

namespace sluice::test {

/// About as large as one of HTTP. When it is drained or ended, it destroys itself at the end of the turn.
class IdleSession final : public Session {
 public:
  explicit IdleSession(ClientAcceptor& acceptor, const ConnectionFacts& facts = {})
      : acceptor_(&acceptor), facts_(facts) {
    acceptor.joined(*this);
  }

  SessionKind kind() const override { return SessionKind::kHttp1; }
  bool shut_down() override {
    drain();
    return true;
  }
  void drain() override {
    ++memory_[256];
    acceptor_->worker().defer([](void* self) { delete static_cast<IdleSession*>(self); }, this);
  }
  ConnectionFacts facts() const override { return facts_; }
  PeerAddress peer() const override {
    // 10.0.0.0 to 10.0.3.231: as many as there are values.
    const auto last = static_cast<uint16_t>(facts_.memory_bytes % 1000);
    const std::array<std::byte, 4> address = {std::byte{10}, std::byte{0}, std::byte(last >> 8), std::byte(last & 255)};
    return PeerAddress::ip4(address, 1234);
  }
  void move_to(ClientAcceptor& to) { std::exchange(acceptor_, &to)->moved(*this, to); }

 private:
  ~IdleSession() { acceptor_->left(*this); }

  ClientAcceptor* acceptor_;
  const ConnectionFacts facts_;
  std::array<uint8_t, 512> memory_{};
};

class IdleSessionFactory final : public SessionFactory {
 public:
  void start(ClientAcceptor& acceptor, int fd, int) override {
    close(fd);
    new IdleSession(acceptor);
  }
  void adopt(ClientAcceptor& acceptor, Session& session) override {
    static_cast<IdleSession&>(session).move_to(acceptor);
  }
};

/// A worker, on the calling thread, with acceptors of one listener.
class IdleAcceptors {
 public:
  explicit IdleAcceptors(size_t count) {
    Worker::Options options;
    options.features = probe_features(RingsMode::kAuto).value();
    worker_ = Worker::open(options).value();
    handshakers_ = std::make_unique<HandshakerServices>(*worker_);
    config_.listeners.push_back({.name = "edge", .max_connections = 0});
    config_.listeners[0].tcp.emplace();
    counters_ = std::make_unique<WorkerCounters>(config_);
    limits_ = std::make_shared<ListenerLimits>(config_.listeners[0]);
    for (size_t i = 0; i < count; ++i) all_.push_back(make_acceptor());
  }
  ~IdleAcceptors() {
    for (auto& acceptor : all_) {
      acceptor->stop_accepting();
      acceptor->drain();
    }
    for (auto& acceptor : all_) {
      while (!acceptor->idle()) worker_->turn(1);
    }
  }

  ClientAcceptor& operator[](size_t i) { return *all_[i]; }
  uint16_t port(size_t i) const { return ports_[i]; }
  Worker& worker() { return *worker_; }
  void add_sessions(size_t acceptor, int count) {
    for (int i = 0; i < count; ++i) add_session(acceptor, {});
  }
  void add_session(size_t acceptor, const ConnectionFacts& facts) {
    if (!global_.enter() || !limits_->connections.enter()) std::abort();
    new IdleSession(*all_[acceptor], facts);
  }
  /// Open sessions of all acceptors.
  uint32_t sessions() const { return global_.active(); }
  const ResetCounters& resets() const { return *resets_; }

 private:
  std::unique_ptr<ClientAcceptor> make_acceptor() {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = open_listener(reinterpret_cast<sockaddr*>(&any), sizeof any, {}).value();
    socklen_t length = sizeof any;
    getsockname(fd, reinterpret_cast<sockaddr*>(&any), &length);
    ports_.push_back(ntohs(any.sin_port));
    ClientAcceptor::Context context{*worker_,
                                    global_,
                                    std::make_shared<ListenerState>(config_.listeners[0], config_.upstreams, limits_),
                                    {},
                                    *handshakers_,
                                    counters_->listeners[0],
                                    counters_->http_listeners[0],
                                    counters_->latencies[0]};
    context.resets = resets_;
    return std::make_unique<ClientAcceptor>(std::move(context), std::make_unique<IdleSessionFactory>(),
                                            std::vector<ListenSocket>{{.fd = fd, .family = AF_INET}});
  }

  config::Config config_;
  std::unique_ptr<Worker> worker_;
  ConnectionLimit global_{0};
  std::unique_ptr<HandshakerServices> handshakers_;
  std::unique_ptr<WorkerCounters> counters_;
  std::shared_ptr<ResetCounters> resets_ = std::make_shared<ResetCounters>();
  std::shared_ptr<ListenerLimits> limits_;
  std::vector<uint16_t> ports_;
  std::vector<std::unique_ptr<ClientAcceptor>> all_;
};

}  // namespace sluice::test
