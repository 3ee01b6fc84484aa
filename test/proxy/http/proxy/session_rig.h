// An HTTP proxy within the test: one worker whose loop the test runs, an acceptor, pooled upstreams, and clients and
// origins that use the proxy's own codecs on plain sockets. The test sets the time: see clock.h.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/helper_threads.h"
#include "proxy/http/proxy/body_file.h"
#include "proxy/http/proxy/health_checker.h"
#include "proxy/http/proxy/http_session_factory.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/listener/client_acceptor.h"
#include "test/net/loop.h"
#include "test/proxy/http/proxy/clock.h"
#include "test/proxy/http/proxy/http_peer.h"

namespace sluice::test {

inline config::Address loopback_of(uint16_t port) {
  return config::Address::parse("127.0.0.1:" + std::to_string(port)).value();
}

/// The versions of HTTP on both sides.
struct Versions {
  bool client_http2;
  bool upstream_http2;
};
inline std::string name_of(Versions versions) {
  return std::string(versions.client_http2 ? "Http2" : "Http1") + "To" + (versions.upstream_http2 ? "Http2" : "Http1");
}

/// A server. It accepts connections and sends only while the rig's loop runs.
class HttpOrigin {
 public:
  HttpOrigin(ChunkPool& pool, bool http2) : options{.http2 = http2, .server = true, .log = &requests}, pool_(pool) {}
  ~HttpOrigin() { stop(); }
  HttpOrigin(const HttpOrigin&) = delete;
  HttpOrigin& operator=(const HttpOrigin&) = delete;

  uint16_t port() const { return port_; }
  void turn() {
    for (pollfd ready{fd_, POLLIN, 0}; fd_ >= 0 && poll(&ready, 1, 0) == 1;) {
      connections.push_back(std::make_unique<HttpPeer>(pool_, ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC), options));
    }
    if (silent) return;
    for (auto& connection : connections) connection->turn();
  }
  /// Refuses connections from now on.
  void stop() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

  HttpPeer::Options options;          ///< Of future connections.
  std::vector<PeerStream*> requests;  ///< All requests, in order.
  std::deque<std::unique_ptr<HttpPeer>> connections;
  bool silent = false;  ///< Sends and reads nothing.

 private:
  ChunkPool& pool_;
  int fd_ = tcp_listen();
  uint16_t port_ = port_of(fd_);
};

/// Set the public fields, add origins, start(). At the end everything is shut down, and each request and each session
/// must have ended exactly once.
class HttpRig {
 public:
  explicit HttpRig(Versions versions) : versions_(versions) {
    listener.name = "edge";
    listener.addresses = {loopback_of(0)};
    listener.http.emplace().forward = "origin";
    upstreams.push_back({.name = "origin"});
    upstream().protocol = versions.upstream_http2 ? config::Protocol::kHttp2 : config::Protocol::kHttp1;
    options.max_sockets = 1024;
    options.features = kernel_features();
  }
  ~HttpRig() {
    if (acceptor_) end();
    clients_.clear();
    origins_.clear();
    use_.reset();
    desk_.reset();  // The worker's loop no longer runs.
    loop_.reset();
    reset_time();
    pool_.take_remote_frees();
    EXPECT_EQ(pool_.leaked(), 0u) << "chunks of the ends did not come home";
  }
  HttpRig(const HttpRig&) = delete;
  HttpRig& operator=(const HttpRig&) = delete;

  HttpOrigin& add_origin() { return add_origin_of(0); }
  /// Of `upstreams[index]`.
  HttpOrigin& add_origin_of(size_t index) {
    config::Upstream& to = upstreams[index];
    origins_.push_back(std::make_unique<HttpOrigin>(pool_, to.protocol == config::Protocol::kHttp2));
    to.endpoints.push_back({.address = loopback_of(origins_.back()->port())});
    return *origins_.back();
  }
  void add_endpoint(uint16_t port) { upstream().endpoints.push_back({.address = loopback_of(port)}); }

  void start() {
    loop_.emplace(options);
    use_.emplace(&pool_);  // The test acts as one of the ends.
    state_ = std::make_shared<ListenerState>(listener, upstreams);
    read_auth_files();
    counters_.emplace(config::Config{.rate_limits = rate_limits, .listeners = {listener}, .upstreams = upstreams});
    for (size_t i = 0; i < upstreams.size(); ++i) {
      upstreams_.push_back(
          std::make_shared<WorkerUpstream>(std::make_shared<UpstreamState>(upstreams[i]), 0, *counters_, i));
    }
    const absl::StatusOr<int> fd = open_listener(listener.addresses[0].data(), listener.addresses[0].length(), {});
    ASSERT_TRUE(fd.ok()) << fd.status();
    port_ = port_of(*fd);
    handshakers_ = std::make_unique<HandshakerServices>(loop_->worker());
    if (keeps_bodies(config())) body_file_.emplace(config::BodyFile());
    http_worker_ = std::make_unique<HttpWorker>(
        HttpWorker::Context{loop_->worker(), *handshakers_, body_file_ ? &*body_file_ : nullptr, nullptr, overload});
    acceptor_ = make_acceptor(*fd);
    acceptor_->start();
    if (upstream().health_check) {
      const ChunkPool::Use use(&loop_->worker().pool());
      checker_ = std::make_unique<HealthChecker>(*http_worker_, upstreams_[0]->balancer);
      checker_->start();
    }
    loop_->settle(2);
  }

  /// Like SIGHUP.
  void read_auth_files() {
    absl::StatusOr<ListenerAuthFiles> files = sluice::read_auth_files(listener);
    ASSERT_TRUE(files.ok()) << files.status();
    state_->auth.replace(*std::move(files));
  }

  /// A new client.
  HttpPeer& connect() {
    clients_.push_back(
        std::make_unique<HttpPeer>(pool_, tcp_connect(port_), HttpPeer::Options{.http2 = versions_.client_http2}));
    return *clients_.back();
  }
  HttpPeer& connect_greeted() {
    HttpPeer& client = connect();
    until([&] { return client.greeted(); });
    return client;
  }
  /// A new client that only the test writes and reads.
  Peer connect_raw() const { return Peer(tcp_connect(port_)); }

  bool until(const std::function<bool()>& done) {
    return loop_->until([&] {
      turn_peers();
      return done();
    });
  }
  /// Runs the loop until all pending events are processed.
  void settle(int turns = 8) {
    for (int i = 0; i < turns; ++i) {
      turn_peers();
      loop_->settle(1);
    }
  }
  /// Advances the time, and processes the events that this causes.
  void pass(std::chrono::milliseconds time) {
    settle(2);
    skip_time(time);
    settle();
  }
  /// The `n`-th request at an origin, once its head has arrived.
  PeerStream& request_at(HttpOrigin& origin, size_t n = 0) {
    SLUICE_CHECK(until([&] { return origin.requests.size() > n && origin.requests[n]->has_head; }));
    return *origin.requests[n];
  }
  bool wait_over(const PeerStream& stream) {
    return until([&] { return stream.over(); });
  }
  /// Waits until the origin sees that the request was canceled.
  void wait_cancelled(const PeerStream& request) {
    until([&] { return request.reset || !request.codec_stream || request.connection->gone(); });
  }
  /// Waits for a complete response.
  void expect_response(const PeerStream& stream, uint16_t status, std::string_view body) {
    wait_over(stream);
    EXPECT_FALSE(stream.reset) << "for " << static_cast<int>(stream.reason);
    EXPECT_EQ(stream.head.status, status);
    EXPECT_TRUE(stream.body == body) << stream.body.size() << " bytes: " << stream.body.substr(0, 200);
  }
  /// Waits until that many requests have ended so, and none is in progress; the others must have ended well.
  void expect_ended(HttpEnd end, uint64_t times = 1) {
    until([&] { return ended(end) >= times && sum_of_ends() == http().requests.value(); });
    for (size_t i = 0; i < kHttpEndCount; ++i) {
      const auto which = static_cast<HttpEnd>(i);
      if (which != HttpEnd::kOk || end == HttpEnd::kOk) {
        EXPECT_EQ(ended(which), which == end ? times : 0u) << http_end_name(which);
      }
    }
  }
  void expect_session_ended(SessionEnd end, uint64_t times = 1) {
    until([&] { return sum_of_session_ends() >= times; });
    for (size_t i = 0; i < kSessionEndCount; ++i) {
      const auto which = static_cast<SessionEnd>(i);
      EXPECT_EQ(session_ends(which), which == end ? times : 0u) << session_end_name(which);
    }
  }

  uint64_t ended(HttpEnd end) { return http().ended[static_cast<size_t>(end)].value(); }
  uint64_t sum_of_ends() { return sum(http().ended); }
  uint64_t session_ends(SessionEnd end) { return counters().ended[static_cast<size_t>(end)].value(); }
  uint64_t sum_of_session_ends() { return sum(counters().ended); }
  uint64_t connect_errors(ConnectError error, size_t index = 0) {
    return endpoint(index).connect_errors[static_cast<size_t>(error)].value();
  }

  config::Upstream& upstream() { return upstreams[0]; }
  config::Http& config() { return *listener.http; }
  ListenerCounters& counters() { return *counters_->listeners[0]; }
  HttpCounters& http() { return *counters_->http_listeners[0]; }
  RateLimitCounters& rate_limit(size_t index = 0) { return *counters_->rate_limits[index]; }
  UpstreamHttpCounters& upstream_counters(size_t index = 0) { return *counters_->http_upstreams[index]; }
  HttpWorker& http_worker() { return *http_worker_; }
  UpstreamState& upstream_state() { return *upstreams_[0]->state; }
  EndpointHealth& health(size_t index = 0) { return upstream_state().endpoint(index).health; }
  EndpointCounters& endpoint(size_t index = 0) { return *counters_->upstreams[0][index]; }
  /// Like SIGTERM,
  void drain() {
    const ChunkPool::Use use(&loop_->worker().pool());
    acceptor_->stop_accepting();
    acceptor_->drain();
  }
  /// and when the time to drain is over.
  void shut_down() {
    const ChunkPool::Use use(&loop_->worker().pool());
    acceptor_->stop_accepting();
    acceptor_->shut_down();
  }

  /// From now on, slow work runs on helper threads.
  void add_desk() { desk_.emplace(loop_->worker()); }

  /// From now on a name has these ports of 127.0.0.1, and the worker is notified.
  void resolve(uint32_t configured, std::vector<uint16_t> ports) {
    std::vector<ResolvedEndpoint> now;
    for (const uint16_t port : ports) now.push_back({.address = loopback_of(port)});
    (void)upstream_state().slots().replace(configured, now);
    const ChunkPool::Use use(&loop_->worker().pool());
    upstreams_[0]->balancer.follow_endpoints();
    http_worker_->follow_endpoints();
    if (checker_) checker_->follow_endpoints();
  }

  Loop& loop() { return *loop_; }
  ClientAcceptor& acceptor() { return *acceptor_; }
  /// Whether at most `bytes` are held, beyond what is posted.
  bool holds_at_most(size_t bytes) {
    return loop()->pool().out_bytes() <=
           loop()->small_group().posted_bytes() + loop()->large_group().posted_bytes() + bytes;
  }

  config::Listener listener;
  std::vector<config::Upstream> upstreams;
  std::vector<config::RateLimit> rate_limits;
  Worker::Options options;
  OverloadState overload_state;
  OverloadCounters overload_counters;
  WorkerOverload overload{overload_state, overload_counters, 1, 0};

 private:
  std::unique_ptr<ClientAcceptor> make_acceptor(int fd) {
    WorkerRateLimits limits;
    for (size_t i = 0; i < rate_limits.size(); ++i) {
      limits.push_back({std::make_shared<RateLimiter>(rate_limits[i], nullptr), counters_->rate_limits[i]});
    }
    const ClientAcceptor::Context context{loop_->worker(),
                                          global_,
                                          state_,
                                          upstreams_,
                                          *handshakers_,
                                          counters_->listeners[0],
                                          counters_->http_listeners[0],
                                          counters_->latencies[0],
                                          /*descriptor_room=*/UINT32_MAX,
                                          /*other_backlogs=*/0,
                                          /*sockets=*/1,
                                          counters_->resets,
                                          limits,
                                          overload};
    return std::make_unique<ClientAcceptor>(context,
                                            std::make_unique<HttpSessionFactory>(context, *http_worker_, nullptr),
                                            std::vector<ListenSocket>{{.fd = fd, .family = AF_INET}});
  }
  template <typename Counters>
  static uint64_t sum(const Counters& counters) {
    uint64_t sum = 0;
    for (const Counter& counter : counters) sum += counter.value();
    return sum;
  }
  void turn_peers() {
    for (auto& origin : origins_) origin->turn();
    for (auto& client : clients_) client->turn();
  }
  void end() {
    loop_->ring().stop_injecting();
    shut_down();
    loop_->until([this] { return acceptor_->idle(); });
    const ChunkPool::Use use(&loop_->worker().pool());
    if (checker_) checker_->close();
    http_worker_->close();
    http_worker_->shut_down();
    loop_->until([this] { return http_worker_->idle() && (!checker_ || checker_->idle()); });
    loop_->settle(2);
    EXPECT_EQ(sum_of_ends(), http().requests.value()) << "each request has one end";
    EXPECT_EQ(sum_of_session_ends() + sum(counters().refused), counters().accepted.value()) << "and each session";
    loop_->until([this] { return loop_->chunks_out() == 0; });  // Helper threads may have some.
    EXPECT_EQ(state_->limits->connections.active(), 0u);
    EXPECT_EQ(global_.active(), 0u);
    for (const auto& each : upstreams_) {
      for (size_t i = 0; i < each->state->size(); ++i) EXPECT_EQ(each->state->endpoint(i).active.load(), 0u);
    }
    acceptor_.reset();
    checker_.reset();
    http_worker_.reset();
    handshakers_->close();
    loop_->until([this] { return handshakers_->idle(); });
    handshakers_.reset();
  }

  const Versions versions_;
  ChunkPool pool_{{.budget_bytes = size_t{512} << 20}};  // Of both ends.
  std::optional<Loop> loop_;
  std::optional<BodyFile> body_file_;
  std::optional<HelperThreads::Desk> desk_;
  std::optional<ChunkPool::Use> use_;
  std::deque<std::unique_ptr<HttpOrigin>> origins_;
  std::deque<std::unique_ptr<HttpPeer>> clients_;
  std::shared_ptr<ListenerState> state_;
  ConnectionLimit global_{0};
  std::optional<WorkerCounters> counters_;
  WorkerUpstreams upstreams_;
  std::unique_ptr<HandshakerServices> handshakers_;
  std::unique_ptr<HttpWorker> http_worker_;
  std::unique_ptr<ClientAcceptor> acceptor_;
  std::unique_ptr<HealthChecker> checker_;  // Where the upstream has checks.
  uint16_t port_ = 0;
};

/// Each version of HTTP on each side.
class HttpRigTest : public testing::TestWithParam<Versions> {
 protected:
  HttpRig rig{GetParam()};
  bool client_http2() const { return GetParam().client_http2; }
  bool upstream_http2() const { return GetParam().upstream_http2; }
};

#define SLUICE_EACH_VERSION(suite)                                                                            \
  INSTANTIATE_TEST_SUITE_P(                                                                                   \
      , suite,                                                                                                \
      testing::Values(test::Versions{false, false}, test::Versions{false, true}, test::Versions{true, false}, \
                      test::Versions{true, true}),                                                            \
      [](const testing::TestParamInfo<test::Versions>& each) { return test::name_of(each.param); })

}  // namespace sluice::test
