// How a health discovery service's checks and endpoints are read.
#include "proxy/xds/check_settings.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "proxy/xds/check_target.h"
#include "proxy/xds/proto_duration.h"
#include "proxy/xds/write_message.h"

namespace sluice::xds {
namespace {

using Settings = std::vector<std::shared_ptr<CheckSettings>>;

// HealthCheck { timeout = 1, interval = 2, http_health_check = 8, tcp_health_check = 9, grpc_health_check = 11 }
std::string check_of(uint32_t kind, std::string_view kind_bytes, uint64_t interval_ms = 1000) {
  return write_message([&](ProtoWriter& out) {
    write_duration_ms(out, 1, 500);
    write_duration_ms(out, 2, interval_ms);
    out.text(kind, kind_bytes);
  });
}
const std::string kByTcp = check_of(9, {});
const std::string kByHttp = check_of(8, "\x12\x02/x");

Settings settings_of(const std::vector<std::string_view>& checks, const Settings& known = {}) {
  static const envoy::ResourceSet none;
  CheckSettingsMaker maker(none, "/dev/null/none");
  return maker.make_all({.bytes = {}, .name = "c", .checks = checks, .socket_matches = {}, .localities = {}}, known);
}

// SocketAddress { protocol = 1, address = 2, port_value = 3 } in an Endpoint.
std::string endpoint_of(std::string_view host, uint32_t port, std::string_view check_config = {},
                        uint64_t protocol = 0) {
  return write_message([&](ProtoWriter& out) {
    const size_t address = out.begin(1), socket = out.begin(1);
    out.number(1, protocol);
    out.text(2, host);
    out.number(3, port);
    out.end(socket);
    out.end(address);
    if (!check_config.empty()) out.text(2, check_config);
  });
}

TEST(CheckSettings, OfEachKind) {
  const Settings made = settings_of({kByTcp, kByHttp, check_of(11, "\x0a\x01s")});
  ASSERT_EQ(made.size(), 3U);
  for (const auto& each : made) {
    EXPECT_EQ(each->problem, "");
    EXPECT_EQ(each->upstream.name, "c");
    EXPECT_TRUE(each->upstream.endpoints.empty());
    EXPECT_EQ(each->upstream.health_check->timeout, config::Duration(500));
  }
  EXPECT_FALSE(made[0]->upstream.health_check->http || made[0]->upstream.health_check->grpc);
  EXPECT_EQ(made[1]->upstream.health_check->http->path, "/x");
  EXPECT_EQ(made[2]->upstream.health_check->grpc->service, "s");
  EXPECT_EQ(made[2]->upstream.protocol, config::Protocol::kHttp2);
}

TEST(CheckSettings, WhatIsTheSameIsUsedAgain) {
  const Settings first = settings_of({kByTcp, kByHttp});
  const std::string changed = check_of(8, "\x12\x02/y");
  const Settings next = settings_of({kByTcp, changed}, first);
  EXPECT_EQ(next[0], first[0]);
  EXPECT_NE(next[1], first[1]);
}

TEST(CheckSettings, IntervalHasABound) {
  EXPECT_EQ(settings_of({check_of(9, {}, 20)})[0]->upstream.health_check->interval, CheckSettingsMaker::kMinInterval);
  EXPECT_EQ(settings_of({check_of(9, {}, 700)})[0]->upstream.health_check->interval, config::Duration(700));
}

TEST(CheckSettings, WhatCannotBeChecked) {
  const auto problem_of = [](const std::vector<std::string_view>& checks) { return settings_of(checks)[0]->problem; };
  EXPECT_EQ(problem_of({}), "it has no health_checks");
  const std::vector<std::string_view> many(CheckSettingsMaker::kMaxChecksOfCluster + 1, kByTcp);
  EXPECT_EQ(problem_of(many), "it has 9 health_checks, and the most are 8");
  const auto has = [&](std::string_view check, std::string_view words) {
    const std::string problem = problem_of({check});
    EXPECT_NE(problem.find(words), std::string::npos) << problem;
  };
  has(check_of(13, "\x0a\x01r"), "it is none by HTTP, TCP or gRPC");  // custom_health_check
  has("\xff", "malformed");
  has(check_of(9, {}, 0), "interval");
  has(check_of(8, "\x50\x02"), "there is no HTTP/3");  // codec_client_type
  has(check_of(8, std::string_view("\x32\x00", 2)), "request_headers_to_add");
  has(check_of(9, std::string_view("\x0a\x00", 2)), "send");
}

TEST(CheckTarget, Address) {
  EXPECT_EQ(read_check_target(endpoint_of("127.0.0.1", 80))->address.text(), "127.0.0.1:80");
  EXPECT_EQ(read_check_target(endpoint_of("::1", 80))->address.text(), "[::1]:80");
  const std::string pipe = write_message([](ProtoWriter& out) {
    const size_t address = out.begin(1), path = out.begin(2);
    out.text(1, "/run/a");
    out.end(path);
    out.end(address);
  });
  EXPECT_EQ(read_check_target(pipe)->address.text(), "unix:/run/a");
}

TEST(CheckTarget, OwnPortAndHost) {
  const absl::StatusOr<CheckTarget> target = read_check_target(endpoint_of("127.0.0.1", 80, "\x08\x51\x12\x01h"));
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->port, 81U);
  EXPECT_EQ(target->host, "h");
}

TEST(CheckTarget, WhatCannotBeChecked) {
  const auto problem_of = [](std::string_view endpoint) {
    return std::string(read_check_target(endpoint).status().message());
  };
  EXPECT_EQ(problem_of(""), "it has no address");
  EXPECT_EQ(problem_of("\xff"), "it is malformed");
  EXPECT_EQ(problem_of("\x0a\x02\x0a\x05"), "it is malformed");
  EXPECT_EQ(problem_of(endpoint_of("a.test", 80)), "\"a.test:80\" is no address");
  EXPECT_EQ(problem_of(endpoint_of("127.0.0.1", 0)), "it has no port");
  EXPECT_EQ(problem_of(endpoint_of("127.0.0.1", 80, {}, 1)), "it is not reached by TCP");
  EXPECT_EQ(problem_of(endpoint_of("127.0.0.1", 80, "\x20\x01")),
            "health_check_config.disable_active_health_check is set");
}

}  // namespace
}  // namespace sluice::xds
