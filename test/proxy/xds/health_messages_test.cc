#include "proxy/xds/health_messages.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "proxy/common/proto_reader.h"
#include "proxy/xds/proto_duration.h"
#include "proxy/xds/write_message.h"

namespace sluice::xds {
namespace {

std::map<uint32_t, std::vector<std::string>> parts_of(std::string_view message) {
  std::map<uint32_t, std::vector<std::string>> parts;
  ProtoReader in(message);
  while (in.next()) {
    parts[in.field()].push_back(in.wire() == ProtoWire::kBytes ? std::string(in.bytes()) : std::to_string(in.number()));
  }
  EXPECT_TRUE(in.ok());
  return parts;
}

// One cluster with `endpoints` endpoints, whose addresses are their numbers.
std::string specifier_of(size_t endpoints, uint64_t interval_ms) {
  return write_message([&](ProtoWriter& out) {
    const size_t cluster = out.begin(1);
    out.text(1, "c");
    out.text(2, "check 1");
    out.text(2, "check 2");
    const size_t locality = out.begin(3);
    out.text(1, "zone");
    for (size_t i = 0; i < endpoints; ++i) {
      const size_t endpoint = out.begin(2);
      out.text(1, std::to_string(i));
      out.end(endpoint);
    }
    out.end(locality);
    out.text(4, "match");
    out.end(cluster);
    write_duration_ms(out, 2, interval_ms);
  });
}

TEST(HealthMessages, RequestHasTheNodeAndWhatCanBeChecked) {
  const auto request = parts_of(parts_of(write_health_request("node")).at(1)[0]);
  EXPECT_EQ(request.at(1)[0], "node");
  EXPECT_EQ(parts_of(request.at(2)[0]).at(1)[0], std::string("\x00\x01", 2));  // HTTP, TCP
}

TEST(HealthMessages, Specifier) {
  const std::string message = specifier_of(2, 2500);
  const auto specifier = read_health_specifier(message);
  ASSERT_TRUE(specifier);
  EXPECT_EQ(specifier->interval_ms, 2500U);
  ASSERT_EQ(specifier->clusters.size(), 1U);
  const HealthSpecifier::Cluster& cluster = specifier->clusters[0];
  EXPECT_EQ(cluster.name, "c");
  EXPECT_EQ(cluster.checks, (std::vector<std::string_view>{"check 1", "check 2"}));
  EXPECT_EQ(cluster.socket_matches, std::vector<std::string_view>{"match"});
  ASSERT_EQ(cluster.localities.size(), 1U);
  EXPECT_EQ(cluster.localities[0].place, "zone");
  ASSERT_EQ(cluster.localities[0].endpoints.size(), 2U);
  EXPECT_EQ(cluster.localities[0].endpoints[1].address, "1");
}

TEST(HealthMessages, IntervalIsASecondIfThereIsNone) {
  EXPECT_EQ(read_health_specifier("")->interval_ms, 1000U);
  EXPECT_EQ(read_health_specifier(specifier_of(0, 0))->interval_ms, 1000U);
}

TEST(HealthMessages, Malformed) {
  EXPECT_FALSE(read_health_specifier("\xff\xff"));
  EXPECT_FALSE(read_health_specifier("\x0a\x02\x0a\x05"));          // A name that is longer than its cluster.
  EXPECT_FALSE(read_health_specifier("\x0a\x04\x1a\x02\x12\x05"));  // The same of an endpoint.
  const std::string negative = write_message([](ProtoWriter& out) {
    const size_t interval = out.begin(2);
    out.number(1, UINT64_MAX);
    out.end(interval);
  });
  EXPECT_FALSE(read_health_specifier(negative));
}

TEST(HealthMessages, NumbersAreBounded) {
  EXPECT_TRUE(read_health_specifier(specifier_of(HealthSpecifier::kMaxEndpoints, 1000)));
  EXPECT_FALSE(read_health_specifier(specifier_of(HealthSpecifier::kMaxEndpoints + 1, 1000)));
  std::string clusters;
  for (size_t i = 0; i < HealthSpecifier::kMaxClusters; ++i) clusters += specifier_of(1, 1000);
  EXPECT_TRUE(read_health_specifier(clusters));
  EXPECT_FALSE(read_health_specifier(clusters + specifier_of(1, 1000)));
}

TEST(HealthMessages, ReportHasBothForms) {
  const std::string report =
      write_health_report({{.name = "c",
                            .localities = {{.place = "zone",
                                            .endpoints = {{.address = "a", .status = HealthStatus::kHealthy},
                                                          {.address = "b", .status = HealthStatus::kTimeout},
                                                          {.address = "c", .status = HealthStatus::kUnhealthy},
                                                          {.address = "d", .status = HealthStatus::kUnknown}}}}}});
  const auto response = parts_of(parts_of(report).at(2)[0]);
  const auto cluster = parts_of(response.at(2)[0]);
  EXPECT_EQ(cluster.at(1)[0], "c");
  const auto locality = parts_of(cluster.at(2)[0]);
  EXPECT_EQ(locality.at(1)[0], "zone");
  EXPECT_EQ(locality.at(2), response.at(1));
  const std::vector<std::string> statuses = {"1", "4", "2"};
  for (size_t i = 0; i < statuses.size(); ++i) EXPECT_EQ(parts_of(response.at(1)[i]).at(2)[0], statuses[i]);
  EXPECT_EQ(parts_of(parts_of(response.at(1)[1]).at(1)[0]).at(1)[0], "b");
  EXPECT_FALSE(parts_of(response.at(1)[3]).contains(2));
}

}  // namespace
}  // namespace sluice::xds
