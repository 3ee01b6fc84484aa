// The proxy of http_session_fuzz.cc: its complete HTTP part, like test/proxy/http/proxy/session_rig.h, without its
// peers and without GoogleTest. What takes long to create is kept between inputs (Machine), the rest is created for
// each (Edge), so that an input behaves the same whatever came before it.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/access_log/access_log.h"
#include "proxy/auth/auth_files.h"
#include "proxy/http/proxy/body_file.h"
#include "proxy/http/proxy/http_session_factory.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/listener/client_acceptor.h"
#include "sluice/internal/check.h"
#include "test/fuzz/http_session_features.h"

namespace sluice::fuzz {

/// A socket on a port of 127.0.0.1 that the kernel chose.
inline int bound_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  SLUICE_CHECK(fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}
inline config::Address address_of(int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  SLUICE_CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  return config::Address::parse("127.0.0.1:" + std::to_string(ntohs(address.sin_port))).value();
}

/// The worker, and listening sockets. Shared by all inputs.
class Machine {
 public:
  static constexpr size_t kBudgetBytes = size_t{32} << 20, kBodyFileBytes = size_t{256} << 10;

  Machine() {
    absl::StatusOr<Features> features = probe_features(RingsMode::kAuto);
    SLUICE_CHECK(features.ok());
    Worker::Options options;
    options.features = *features;
    options.max_sockets = 1024;
    options.budget_bytes = kBudgetBytes;
    options.decay_ms = uint64_t{1} << 50;  // Inputs move the time by hours, and memory is needed again at once.
    absl::StatusOr<std::unique_ptr<Worker>> opened = Worker::open(options);
    SLUICE_CHECK(opened.ok());
    worker_ = std::move(*opened);
    worker_->turn(0);
    for (const int fd : {edge_, http1_, http2_, second_http1_, second_http2_}) SLUICE_CHECK(listen(fd, 128) == 0);
    absl::StatusOr<std::unique_ptr<AccessLogs>> logs = AccessLogs::open({"/dev/null"}, 1);
    SLUICE_CHECK(logs.ok());
    logs_ = std::move(*logs);
  }
  /// Runs at the end of the program, since lines are written by a thread, and later.
  ~Machine() {
    logs_->close();
    const uint64_t lines = logs_->written(0) + logs_->dropped(0);
    SLUICE_CHECK(lines >= least_lines && lines <= most_lines);
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  Worker& worker() { return *worker_; }
  int edge() const { return edge_; }    ///< Where clients connect,
  int http1() const { return http1_; }  ///< and where the proxy connects, for either version.
  int http2() const { return http2_; }
  int second_http1() const { return second_http1_; }  ///< A second endpoint of the same upstream, for hedges.
  int second_http2() const { return second_http2_; }
  int closed_port() const { return closed_port_; }  ///< Only bound.
  AccessLogWriter& log() { return logs_->writer(0, 0); }
  const Credentials& credentials() const { return credentials_; }
  BodyFile& body_file() { return body_file_; }

  /// Each finished request has one line; a response without a request may have one.
  uint64_t least_lines = 0, most_lines = 0;

 private:
  std::unique_ptr<Worker> worker_;
  const int edge_ = bound_socket(), http1_ = bound_socket(), http2_ = bound_socket(), closed_port_ = bound_socket();
  const int second_http1_ = bound_socket(), second_http2_ = bound_socket();
  std::unique_ptr<AccessLogs> logs_;
  const Credentials credentials_;
  // Without helper threads: bodies are written at once. Soon full.
  BodyFile body_file_{{.limit = config::Size{kBodyFileBytes}}};
};

/// A listener with its routes and upstreams, until the end of one input.
class Edge {
 public:
  struct Options {
    bool upstream_http2;  ///< Of the requests that name no other upstream.
    bool small;           ///< Limits that are soon reached.
    bool relaxed;         ///< Allows what is forbidden by default.
    bool log;
    uint32_t features = 0;  ///< Bits of HttpFeatures.
  };

  Edge(Machine& machine, const Options& options) : machine_(machine), options_(options) {
    configure();
    if (options.log) listener_.http->access_log.emplace();
    HttpFeatures(options.features, machine.credentials()).add_to(*listener_.http);
    state_ = std::make_shared<ListenerState>(listener_, upstreams_);
    if (options.features & HttpFeatures::kAuth) state_->auth.replace(read_auth_files(listener_).value());
    counters_.emplace(config::Config{.listeners = {listener_}, .upstreams = upstreams_});
    for (size_t i = 0; i < upstreams_.size(); ++i) {
      worker_upstreams_.push_back(
          std::make_shared<WorkerUpstream>(std::make_shared<UpstreamState>(upstreams_[i]), 0, *counters_, i));
    }
    handshakers_.emplace(machine_.worker());
    http_.emplace(HttpWorker::Context{machine_.worker(), *handshakers_, &machine_.body_file()});
    acceptors_.push_back(make_acceptor());
    acceptors_.back()->start();
  }
  /// Precondition: idle().
  ~Edge() {
    acceptors_.clear();
    http_.reset();
  }
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;

  void drain() {
    const ChunkPool::Use use(&machine_.worker().pool());
    for (auto& acceptor : acceptors_) acceptor->drain();
  }
  /// As if another configuration had replaced this one, with other limits and the same routes and upstreams.
  void reload() {
    const ChunkPool::Use use(&machine_.worker().pool());
    listener_.http->http2.max_streams = 3 + listener_.http->http2.max_streams % 7;
    listener_.http->max_fields = 20 + listener_.http->max_fields % 50;
    state_ = std::make_shared<ListenerState>(listener_, upstreams_, state_->limits);
    if (options_.features & HttpFeatures::kAuth) state_->auth.replace(read_auth_files(listener_).value());
    std::unique_ptr<ClientAcceptor> next = make_acceptor();
    next->start();
    for (auto& acceptor : acceptors_) acceptor->hand_over(*next);
    acceptors_.push_back(std::move(next));
  }
  void shut_down() {
    const ChunkPool::Use use(&machine_.worker().pool());
    for (auto& acceptor : acceptors_) acceptor->shut_down();
  }
  void stop_accepting() {
    for (auto& acceptor : acceptors_) acceptor->stop_accepting();
  }
  /// Precondition: sessions_gone().
  void close_upstreams(bool at_once) {
    const ChunkPool::Use use(&machine_.worker().pool());
    at_once ? http_->shut_down() : http_->close();
  }
  bool sessions_gone() const {
    return std::all_of(acceptors_.begin(), acceptors_.end(), [](const auto& acceptor) { return acceptor->idle(); });
  }
  bool idle() const { return sessions_gone() && http_->idle(); }

  uint64_t accepted() const { return counters_->listeners[0]->accepted.value(); }
  uint64_t requests() const { return http().requests.value(); }
  uint64_t requests_ended() const { return sum(http().ended); }
  uint64_t requests_passed_on() const {
    uint64_t all = 0;
    for (const auto& upstream : counters_->http_upstreams) all += upstream->requests.value();
    return all;
  }
  uint64_t connections_opened() const {
    uint64_t all = 0;
    for (const auto& upstream : counters_->http_upstreams) all += upstream->connections_opened.value();
    return all;
  }
  uint64_t sessions_ended() const { return sum(counters_->listeners[0]->ended); }
  /// Responses whose status was sent to the client, the proxy's own included.
  uint64_t statuses() const { return sum(http().statuses); }
  uint64_t active() const {
    uint64_t all = global_.active() + state_->limits->connections.active();
    for (const auto& upstream : worker_upstreams_) {
      for (size_t i = 0; i < upstream->state->size(); ++i) all += upstream->state->endpoint(i).active.load();
    }
    return all;
  }

 private:
  std::unique_ptr<ClientAcceptor> make_acceptor() {
    // A descriptor of its own for the same socket: the acceptor closes it.
    const int fd = fcntl(machine_.edge(), F_DUPFD_CLOEXEC, 0);
    SLUICE_CHECK(fd >= 0);
    const ClientAcceptor::Context context{machine_.worker(),
                                          global_,
                                          state_,
                                          worker_upstreams_,
                                          *handshakers_,
                                          counters_->listeners[0],
                                          counters_->http_listeners[0],
                                          counters_->latencies[0]};
    return std::make_unique<ClientAcceptor>(
        context, std::make_unique<HttpSessionFactory>(context, *http_, options_.log ? &machine_.log() : nullptr),
        std::vector<ListenSocket>{{.fd = fd, .family = AF_INET}});
  }
  template <typename Counters>
  static uint64_t sum(const Counters& counters) {
    uint64_t sum = 0;
    for (const Counter& counter : counters) sum += counter.value();
    return sum;
  }
  const HttpCounters& http() const { return *counters_->http_listeners[0]; }

  void add_upstream(std::string name, config::Protocol protocol, std::initializer_list<int> endpoints) {
    config::Upstream& upstream = upstreams_.emplace_back();
    upstream.name = std::move(name);
    upstream.protocol = protocol;
    for (const int fd : endpoints) upstream.endpoints.push_back({.address = address_of(fd)});
    if (!options_.small) return;
    upstream.pool.max_idle = 1;
    upstream.pool.max_requests = 3;
    upstream.pool.max_streams = 2;
    upstream.pool.max_pending = 2;
    upstream.max_connections_per_endpoint = 2;
    upstream.response_timeout = std::chrono::seconds(5);
  }
  static config::HttpRoute forward(std::string prefix, std::string to) {
    return {.match = config::HttpMatch{.path = config::PathMatch{.prefix = std::move(prefix)}},
            .forward = std::move(to)};
  }

  void configure() {
    using std::chrono::seconds;
    listener_.name = "edge";
    listener_.addresses = {address_of(machine_.edge())};
    listener_.backlog = 128;
    add_upstream("http1", config::Protocol::kHttp1, {machine_.http1()});
    add_upstream("http2", config::Protocol::kHttp2, {machine_.http2()});
    if (options_.features & HttpFeatures::kHedge) {
      upstreams_[0].endpoints.push_back({.address = address_of(machine_.second_http1())});
      upstreams_[1].endpoints.push_back({.address = address_of(machine_.second_http2())});
    }
    add_upstream("closed", config::Protocol::kHttp1, {machine_.closed_port()});
    // The second attempt succeeds, or the first.
    add_upstream("retry1", config::Protocol::kHttp1, {machine_.closed_port(), machine_.http1()});
    add_upstream("retry2", config::Protocol::kHttp2, {machine_.closed_port(), machine_.http2()});
    config::Http& http = listener_.http.emplace();
    http.routes.push_back(forward("/1", "http1"));
    http.routes.push_back(forward("/2", "http2"));
    http.routes.push_back(forward("/closed", "closed"));
    http.routes.push_back(forward("/retry1", "retry1"));
    http.routes.push_back(forward("/retry2", "retry2"));
    http.routes.push_back(
        {.match = config::HttpMatch{.path = config::PathMatch{.prefix = "/answer"}},
         .forward = "",
         .respond = config::Respond{.status = 200, .body = "our own answer\n", .content_type = "a/b"}});
    http.routes.push_back(forward("/", options_.upstream_http2 ? "http2" : "http1"));
    // Nothing may last longer than the fuzzer waits.
    http.stream_idle_timeout = seconds(100);
    http.tunnel_timeout = seconds(110);
    http.buffer_high.bytes = 64 * 1024;
    if (options_.relaxed) {
      http.allow_connect = true;
      http.http1.allow_underscores = true;
      http.paths = {.escaped_slashes = config::EscapedSlashes::kDecode,
                    .merge_slashes = true,
                    .allow_backslashes = true,
                    .allow_dot_parameters = true};
      http.forwarded_for = config::ForwardedFor::kReplace;
    }
    if (!options_.small) return;
    http.max_start_line.bytes = 256;
    http.max_head.bytes = 1024;
    http.max_fields = 16;
    http.buffer_high.bytes = 16 * 1024;
    http.request_timeout = seconds(40);
    http.max_connection_age = seconds(50);
    http.body_timeout = seconds(7);
    http.send_timeout = seconds(8);
    http.idle_timeout = seconds(9);
    http.http1.max_requests = 4;
    http.http1.allow_empty_line = false;
    http.http2.max_streams = 3;
    http.http2.max_requests = 6;
    http.http2.stream_window.bytes = 1000;
    http.http2.connection_window.bytes = 65535;
  }

  Machine& machine_;
  const Options options_;
  config::Listener listener_;
  std::vector<config::Upstream> upstreams_;
  std::shared_ptr<ListenerState> state_;
  ConnectionLimit global_{0};
  std::optional<WorkerCounters> counters_;
  WorkerUpstreams worker_upstreams_;
  std::optional<HandshakerServices> handshakers_;
  std::optional<HttpWorker> http_;
  std::vector<std::unique_ptr<ClientAcceptor>> acceptors_;  // The last one accepts.
};

}  // namespace sluice::fuzz
