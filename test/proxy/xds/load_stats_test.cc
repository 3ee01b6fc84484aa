#include "proxy/xds/load_stats.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "proxy/common/proto_reader.h"
#include "proxy/common/proto_writer.h"
#include "proxy/xds/proto_duration.h"

namespace sluice::xds {
namespace {

// Fields of a message: texts as they are, numbers as digits.
std::map<uint32_t, std::vector<std::string>> fields_of(std::string_view message) {
  std::map<uint32_t, std::vector<std::string>> fields;
  ProtoReader in(message);
  while (in.next()) {
    fields[in.field()].push_back(in.wire() == ProtoWire::kBytes ? std::string(in.bytes())
                                                                : std::to_string(in.number()));
  }
  EXPECT_TRUE(in.ok());
  return fields;
}

TEST(LoadStats, RequestHasTheNodeOnce) {
  EXPECT_EQ(fields_of(write_load_request("node", {})).at(1), std::vector<std::string>{"node"});
  EXPECT_TRUE(write_load_request({}, {}).empty());
}

TEST(LoadStats, RequestHasAllOfAReport) {
  const LoadCounts counts{.succeeded = 5, .failed = 2, .issued = 9, .in_progress = 1};
  const std::string request =
      write_load_request({}, {{.name = "c",
                               .service_name = "s",
                               .localities = {{.place = {.region = "r", .zone = "z", .sub_zone = "u", .priority = 3},
                                               .counts = counts,
                                               .endpoints = {{.address = "[::1]:80", .counts = counts},
                                                             {.address = "unix:/a/b", .counts = counts}}}},
                               .dropped = 4,
                               .interval_ms = 1500}});
  const auto cluster = fields_of(fields_of(request).at(2)[0]);
  EXPECT_EQ(cluster.at(1)[0], "c");
  EXPECT_EQ(cluster.at(3)[0], "4");
  EXPECT_EQ(read_duration_ms(cluster.at(4)[0]), 1500U);
  EXPECT_EQ(cluster.at(6)[0], "s");
  const auto locality = fields_of(cluster.at(2)[0]);
  EXPECT_EQ(fields_of(locality.at(1)[0]).at(3)[0], "u");
  EXPECT_EQ(locality.at(2)[0], "5");
  EXPECT_EQ(locality.at(3)[0], "1");
  EXPECT_EQ(locality.at(4)[0], "2");
  EXPECT_EQ(locality.at(6)[0], "3");
  EXPECT_EQ(locality.at(8)[0], "9");
  const auto first = fields_of(locality.at(7)[0]);
  EXPECT_EQ(first.at(7)[0], "9");
  const auto socket = fields_of(fields_of(first.at(1)[0]).at(1)[0]);
  EXPECT_EQ(socket.at(2)[0], "::1");
  EXPECT_EQ(socket.at(3)[0], "80");
  EXPECT_EQ(fields_of(fields_of(fields_of(locality.at(7)[1]).at(1)[0]).at(2)[0]).at(1)[0], "/a/b");
}

TEST(LoadStats, Response) {
  std::string room(1000, '\0');
  ProtoWriter out(room);
  out.text(1, "a");
  out.text(1, "b");
  write_duration_ms(out, 2, 2500);
  out.number(3, 1);
  const std::string message(out.written());
  const std::optional<LoadWish> wish = read_load_response(message);
  ASSERT_TRUE(wish);
  EXPECT_EQ(wish->clusters, (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(wish->interval_ms, 2500U);
  EXPECT_TRUE(wish->by_endpoint);
  EXPECT_FALSE(wish->all_clusters);
  EXPECT_FALSE(read_load_response("\xff"));
  EXPECT_FALSE(read_load_response(std::string("\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13)))
      << "a negative interval";
}

}  // namespace
}  // namespace sluice::xds
