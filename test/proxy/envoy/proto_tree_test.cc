#include "proxy/envoy/proto_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/common/proto_writer.h"
#include "proxy/envoy/field_table.h"
#include "proxy/envoy/wire_format.h"
#include "proxy/envoy/yaml_writer.h"

namespace sluice::envoy {
namespace {

using config::Node;

template <class Write>
std::string message(const Write& write) {
  std::string room(4096, '\0');
  ProtoWriter out(room);
  write(out);
  EXPECT_TRUE(out.ok());
  return std::string(out.written());
}

std::string yaml_of(std::string_view type, std::string_view bytes) {
  size_t values = 1000;
  Node node;
  const absl::Status read = read_message(type, bytes, values, node);
  return read.ok() ? write_yaml(node) : std::string(read.message());
}

TEST(ProtoTree, ReadsScalarsEnumsWrappersAndDurations) {
  const std::string cluster = message([](ProtoWriter& out) {
    out.text(1, "app");
    out.number(2, 3);  // type: EDS
    const size_t timeout = out.begin(4);
    out.number(1, 1);
    out.number(2, 250'000'000);
    out.end(timeout);
    const size_t buffer = out.begin(5);
    out.number(1, 32768);
    out.end(buffer);
  });
  EXPECT_EQ(yaml_of("envoy.config.cluster.v3.Cluster", cluster),
            "name: app\ntype: EDS\nconnect_timeout: 1.250000000s\nper_connection_buffer_limit_bytes: 32768\n");
}

TEST(ProtoTree, ReadsAnyMapsAndUnknownFields) {
  const std::string cluster = message([](ProtoWriter& out) {
    const size_t entry = out.begin(36);  // typed_extension_protocol_options
    out.text(1, "x");
    const size_t any = out.begin(2);
    out.text(1, "type.googleapis.com/envoy.config.core.v3.Http2ProtocolOptions");
    out.text(2, message([](ProtoWriter& options) {
               const size_t streams = options.begin(2);
               options.number(1, 7);
               options.end(streams);
             }));
    out.end(any);
    out.end(entry);
    out.number(9999, 1);
  });
  EXPECT_EQ(yaml_of("envoy.config.cluster.v3.Cluster", cluster),
            "typed_extension_protocol_options:\n  x:\n    \"@type\": "
            "type.googleapis.com/envoy.config.core.v3.Http2ProtocolOptions\n    max_concurrent_streams: 7\n"
            "field_9999: \"of a later version\"\n");
}

TEST(ProtoTree, AnErrorNamesTheField) {
  const std::string cluster = message([](ProtoWriter& out) { out.text(4, "\xff\xff\xff"); });
  EXPECT_EQ(yaml_of("envoy.config.cluster.v3.Cluster", cluster),
            "envoy.config.cluster.v3.Cluster is malformed in connect_timeout");
}

TEST(ProtoTree, ANumberInPlaceOfATextIsMalformed) {
  const std::string cluster = message([](ProtoWriter& out) { out.number(1, 5); });
  EXPECT_EQ(yaml_of("envoy.config.cluster.v3.Cluster", cluster),
            "envoy.config.cluster.v3.Cluster is malformed in name");
}

// Two bytes of a message become a value of some hundred bytes, so that a message of 10 MB would take gigabytes.
TEST(ProtoTree, BoundsTheNumberOfValues) {
  std::string many;
  for (int i = 0; i < 2000; ++i) many += message([](ProtoWriter& out) { out.end(out.begin(25)); });  // health_checks
  EXPECT_EQ(yaml_of("envoy.config.cluster.v3.Cluster", many), "envoy.config.cluster.v3.Cluster has too many values");
}

// A message within itself must not use up the stack.
TEST(ProtoTree, BoundsTheDepth) {
  const std::string list = "envoy.config.rbac.v3.Permission";
  size_t values = 100'000;
  Node node;
  std::string deep;
  for (int i = 0; i < 150; ++i) {
    const std::string inner = std::exchange(deep, {});
    deep = message([&](ProtoWriter& out) { out.text(8, inner); });  // not_rule
  }
  EXPECT_FALSE(read_message(list, deep, values, node).ok());
}

TEST(WireFormat, HasEachMessageAndFieldOfTheMapping) {
  // Not in the API of Envoy 1.40.
  const std::set<std::string_view> later = {"validate_header_values", "on_demand_configuration"};
  for (const std::span<const MessageRule> group :
       {listener_messages(), filter_messages(), route_messages(), cluster_messages(), common_messages()}) {
    for (const MessageRule& rule : group) {
      const WireMessage* const wire = find_wire_message(rule.name);
      ASSERT_NE(wire, nullptr) << rule.name;
      for (const FieldRule& field : rule.fields) {
        const bool found = std::any_of(wire->fields.begin(), wire->fields.end(),
                                       [&](const WireField& each) { return each.name == field.name; });
        EXPECT_TRUE(found || later.contains(field.name)) << rule.name << "." << field.name;
      }
    }
  }
}

TEST(WireFormat, NamesEnumerations) {
  EXPECT_EQ(wire_enum_text("envoy.config.cluster.v3.Cluster.DiscoveryType", 1), "STRICT_DNS");
  EXPECT_EQ(wire_enum_text("envoy.config.cluster.v3.Cluster.DiscoveryType", 77), "77");
}

}  // namespace
}  // namespace sluice::envoy
