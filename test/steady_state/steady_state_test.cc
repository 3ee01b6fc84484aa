// Design invariants 2 and 3: in the steady state plain forwarding copies nothing and allocates nothing; nor do the
// features that a request uses allocate.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "test/proxy/tls/test_certificate.h"
#include "test/steady_state/http_clients.h"
#include "test/steady_state/http_forwarding.h"
#include "test/support/allocations.h"
#include "test/support/forwarding.h"

namespace sluice {
namespace {

struct Cost {
  uint64_t allocations, copied_bytes;
};

/// The costs of `work` that was done before. Without a count of allocations they are 0.
template <class Work>
Cost cost_of(test::TestProxy& proxy, Work work) {
  work();
  const uint64_t copied = proxy.gauges().copied_bytes.value();
  const uint64_t allocated = test::allocations.load();
  work();
  return {test::allocations.load() - allocated, proxy.gauges().copied_bytes.value() - copied};
}

class SteadyState : public testing::TestWithParam<std::tuple<RingsMode, size_t>> {};

TEST_P(SteadyState, AThousandRequestsAllocateAndCopyNothing) {
  const size_t bytes = std::get<1>(GetParam());
  test::Forwarding forwarding(std::get<0>(GetParam()));
  const Cost cost = cost_of(forwarding.proxy(), [&] {
    for (int i = 0; i < 1000; ++i) forwarding.round_trip(bytes);
  });
  EXPECT_EQ(cost.allocations, 0u);
  EXPECT_EQ(cost.copied_bytes, 0u);
}

TEST_P(SteadyState, AThousandRequestsWithALogAllocateAndCopyNothing) {
  const size_t bytes = std::get<1>(GetParam());
  test::Forwarding forwarding(std::get<0>(GetParam()), ChunkPool::Source::kArena,
                              [](config::Config& config, std::vector<int>&) {
                                config.listeners[0].tcp->access_log.emplace().file = "/dev/null";
                              });
  const Cost cost = cost_of(forwarding.proxy(), [&] {
    for (int i = 0; i < 1000; ++i) forwarding.round_trip(bytes);
  });
  EXPECT_EQ(cost.allocations, 0u);
  EXPECT_EQ(cost.copied_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Sizes, SteadyState,
                         testing::Combine(testing::Values(RingsMode::kAuto, RingsMode::kPlain),
                                          testing::Values(size_t{120}, size_t{16384}, size_t{256 * 1024})));

/// TLS on both sides of the worker: data from the client's listener is sent to its endpoint, which is a second
/// listener, which forwards it.
class OverTls {
 public:
  OverTls() : certificate_(test::TestCertificate({}).files(folder_, "server")) {}

  void operator()(config::Config& config, std::vector<int>& listen_fds) const {
    sockaddr_in address;
    listen_fds.push_back(test::listen_anywhere(address));
    config::Listener inner = config.listeners[0];
    inner.name = "inner";
    inner.tls.emplace().certificates = {certificate_};
    config::Upstream secure = config.upstreams[0];
    secure.name = "secure";
    secure.tls.emplace().verify = false;
    secure.endpoints = {{.address = config::Address::parse(test::text_of(address)).value()}};
    config::Listener& outer = config.listeners[0];
    (outer.tcp ? outer.tcp->forward : outer.http->forward) = secure.name;
    config.listeners.push_back(std::move(inner));
    config.upstreams.push_back(std::move(secure));
  }

 private:
  test::TemporaryFolder folder_;
  config::TlsCertificate certificate_;
};

// The worker's side of it: each byte of the client is sealed, opened, and forwarded, in both directions.
TEST_P(SteadyState, TlsAllocatesNothingAndCopiesLessThanAHundredth) {
  const size_t bytes = std::get<1>(GetParam());
  const OverTls over_tls;
  test::Forwarding forwarding(std::get<0>(GetParam()), ChunkPool::Source::kArena, std::cref(over_tls));
  constexpr int kTrips = 300;
  const Cost cost = cost_of(forwarding.proxy(), [&] {
    for (int i = 0; i < kTrips; ++i) forwarding.round_trip(bytes);
  });
  EXPECT_EQ(cost.allocations, 0u);
  EXPECT_LT(cost.copied_bytes, 2 * kTrips * bytes / 100);
  EXPECT_EQ(forwarding.proxy().counters().listeners[1]->tls_handshakes.value(), 1u);
}

class HttpSteadyState : public testing::TestWithParam<std::tuple<RingsMode, test::Bodies>> {
 protected:
  template <class Client>
  Cost a_thousand_requests(void (*configure)(config::Http&) = nullptr, const test::MoreListeners& more = nullptr) {
    test::HttpForwarding<Client> forwarding(std::get<0>(GetParam()), std::get<1>(GetParam()), configure, more);
    // Many simultaneous requests need one more connection or a larger table for the first time, which is allocated
    // once; how many coincide depends on the scheduling of threads. So this is far less than one for each request, and
    // soon nothing.
    Cost cost;
    for (int attempt = 0; attempt < 3; ++attempt) {
      cost = cost_of(forwarding.proxy(), [&] { forwarding.requests(1000); });
      if (cost.allocations == 0) break;
      EXPECT_LT(cost.allocations, 100u);
    }
    const bool over_tls = more && more.template target<std::reference_wrapper<const OverTls>>() != nullptr;
    EXPECT_EQ(forwarding.proxy().counters().listeners.back()->tls_handshakes.value() > 0, over_tls);
    return cost;
  }
};

TEST_P(HttpSteadyState, AThousandRequestsAllocateAndCopyNothing) {
  const Cost cost = a_thousand_requests<test::Http1Client>();
  EXPECT_EQ(cost.allocations, 0u);
  EXPECT_EQ(cost.copied_bytes, 0u);
}

TEST_P(HttpSteadyState, AThousandRequestsOfHttp2AllocateNothingAndCopyNoBody) {
  const Cost cost = a_thousand_requests<test::Http2Client>();
  EXPECT_EQ(cost.allocations, 0u);
  EXPECT_LT(cost.copied_bytes, 1000u);  // A frame's head of 9 bytes that is split across two chunks is joined.
}

TEST_P(HttpSteadyState, AThousandRequestsOverTlsAllocateNothing) {
  const OverTls over_tls;
  const Cost cost = a_thousand_requests<test::Http1Client>(nullptr, std::cref(over_tls));
  const test::Bodies bodies = std::get<1>(GetParam());
  EXPECT_EQ(cost.allocations, 0u);
  EXPECT_LT(cost.copied_bytes, 1000 * std::max<size_t>(bodies.request + bodies.response, 1000) / 100);
}

// A thousand routes, of which the last is taken, a hundred rules for header fields, and an access log.
void add_features(config::Http& http) {
  for (int i = 0; i < 999; ++i) {
    config::HttpRoute& route = http.routes.emplace_back();
    route.match.emplace();
    if (i % 2) route.match->host.push_back(config::HostPattern::parse("tenant-" + std::to_string(i) + ".test").value());
    route.match->path = config::PathMatch{.exact = "", .prefix = "/team-" + std::to_string(i) + "/"};
    route.forward = http.forward;
  }
  http.routes.push_back({.forward = std::exchange(http.forward, "")});
  for (auto* const rules : {&http.request_headers, &http.response_headers}) {
    for (int i = 0; i < 25; ++i) {
      const auto named = [i](const std::string& kind) {
        return config::FieldName::parse(kind + std::to_string(i)).value();
      };
      rules->push_back({.name = named("x-set-"), .set = config::TextTemplate::parse("%{client_ip}").value()});
      rules->push_back({.name = named("x-internal-"), .remove = true});
    }
  }
  http.access_log.emplace();
  http.access_log->file = "/dev/null";
  http.access_log->when =
      config::LogCondition::parse("(status >= 200 and header:x-none == '') or duration > 1s or random < 0.5").value();
}

TEST_P(HttpSteadyState, AThousandRequestsWithManyRoutesRulesAndALogAllocateNothing) {
  EXPECT_EQ(a_thousand_requests<test::Http1Client>(add_features).allocations, 0u);
  EXPECT_EQ(a_thousand_requests<test::Http2Client>(add_features).allocations, 0u);
}

// A collector of spans on one connection at a time. It allocates nothing.
class Collector {
 public:
  Collector() : fd_(test::listen_anywhere(address_)) {
    thread_ = std::thread([this] {
      for (int fd; (fd = accept(fd_, nullptr, nullptr)) >= 0; close(fd)) {
        while (take_request(fd)) test::send_all(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
      }
    });
  }
  /// The proxy must be destroyed before.
  ~Collector() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  void operator()(config::Config& config, std::vector<int>& /*listen_fds*/) const {
    const std::string address = "127.0.0.1:" + std::to_string(ntohs(address_.sin_port));
    config::Upstream upstream = config::from_flags({.listen = "127.0.0.1:1", .to = {address}})->upstreams[0];
    upstream.name = "collector";
    config.upstreams.push_back(std::move(upstream));
  }
  int requests() const { return requests_; }

 private:
  bool take_request(int fd) {
    constexpr std::string_view kLength = "content-length: ", kEnd = "\r\n\r\n";
    size_t size = 0, whole = SIZE_MAX;
    while (size < whole) {
      const ssize_t got = recv(fd, data_.data() + size, data_.size() - size, 0);
      if (got <= 0) return false;
      size += static_cast<size_t>(got);
      const std::string_view text(data_.data(), size);
      const size_t end = text.find(kEnd), length = text.find(kLength);
      if (end == std::string_view::npos || length > end) continue;
      whole = end + kEnd.size() + strtoul(text.data() + length + kLength.size(), nullptr, 10);
    }
    ++requests_;
    return true;
  }

  sockaddr_in address_;
  int fd_;
  std::array<char, 1 << 20> data_;
  std::atomic<int> requests_ = 0;
  std::thread thread_;
};

// The log in JSON, and all requests are recorded.
void observe(config::Http& http) {
  http.access_log.emplace();
  http.access_log->file = "/dev/null";
  http.access_log->format = config::LogFormat::parse("json").value();
  http.request_id.emplace().header = config::FieldName::parse("x-request-id").value();
  http.trace_context = config::TraceContext::kMake;
  http.tracing = config::Tracing{.to = "collector", .sample = {}};
}

TEST_P(HttpSteadyState, AThousandRequestsWithALogInJsonAndTracesAllocateNothing) {
  const auto collector = std::make_unique<Collector>();
  const test::MoreListeners with_collector = std::cref(*collector);
  EXPECT_EQ(a_thousand_requests<test::Http1Client>(observe, with_collector).allocations, 0u);
  EXPECT_EQ(a_thousand_requests<test::Http2Client>(observe, with_collector).allocations, 0u);
  EXPECT_GT(collector->requests(), 0);
}

INSTANTIATE_TEST_SUITE_P(Bodies, HttpSteadyState,
                         testing::Combine(testing::Values(RingsMode::kAuto, RingsMode::kPlain),
                                          testing::Values(test::Bodies{0, 120}, test::Bodies{0, 16384},
                                                          test::Bodies{16384, 120})));

}  // namespace
}  // namespace sluice
