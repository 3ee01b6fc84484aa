#include "proxy/envoy/tree_json.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_replace.h"
#include "proxy/common/json_writer.h"

namespace sluice::envoy {
namespace {

// Without blanks.
std::string json_of(std::string_view type, std::string_view yaml, std::set<std::string>* left_out = nullptr) {
  config::Node root;
  config::YamlBudget budget;
  config::Report report("test");
  EXPECT_TRUE(config::parse_yaml(yaml, 0, budget, root, report)) << report.status();
  JsonWriter json;
  TreeJson writer(json);
  writer.write(type, root);
  if (left_out != nullptr) *left_out = writer.left_out();
  return absl::StrReplaceAll(std::move(json).text(), {{" ", ""}, {"\n", ""}});
}

TEST(TreeJson, ScalarsHaveTheTypesOfTheirFields) {
  EXPECT_EQ(json_of("envoy.config.cluster.v3.Cluster",
                    "{ name: 12, type: STATIC, connectTimeout: 1.5s, lb_policy: 3, respect_dns_ttl: true, "
                    "per_connection_buffer_limit_bytes: 5 }"),
            R"({"name":"12","type":"STATIC","connect_timeout":"1.5s","lb_policy":3,"respect_dns_ttl":true,)"
            R"("per_connection_buffer_limit_bytes":5})");
  EXPECT_EQ(json_of("envoy.config.core.v3.SocketAddress", "{ address: 127.0.0.1, port_value: 80 }"),
            R"({"address":"127.0.0.1","port_value":80})");
  EXPECT_EQ(json_of("envoy.config.core.v3.SocketAddress", "{ port_value: x }"), R"({"port_value":"x"})");
}

TEST(TreeJson, ListsMapsAndOtherMessages) {
  EXPECT_EQ(json_of("envoy.config.core.v3.Node", "{ id: a, metadata: { n: 1.5, t: x, b: false, l: [ 1, null ] } }"),
            R"({"id":"a","metadata":{"n":1.5,"t":"x","b":false,"l":[1,null]}})");
  EXPECT_EQ(json_of("envoy.config.core.v3.Metadata", "{ filter_metadata: { k: { a: b } } }"),
            R"({"filter_metadata":{"k":{"a":"b"}}})");
  EXPECT_EQ(json_of("envoy.config.core.v3.TransportSocket",
                    R"({ typed_config: { "@type": type.googleapis.com/envoy.config.core.v3.Pipe, path: /a } })"),
            R"({"typed_config":{"@type":"type.googleapis.com/envoy.config.core.v3.Pipe","path":"/a"}})");
  // One item in the place of a list is a list of one.
  EXPECT_EQ(json_of("envoy.config.core.v3.ApiConfigSource", "{ cluster_names: a }"), R"({"cluster_names":["a"]})");
}

TEST(TreeJson, SecretsAreRedacted) {
  const std::string json = json_of("envoy.extensions.transport_sockets.tls.v3.TlsCertificate",
                                   "{ certificate_chain: { filename: shown }, private_key: { inline_string: hush, "
                                   "inline_bytes: aHVzaA== }, password: { filename: hush } }");
  EXPECT_EQ(json.find("hush"), std::string::npos) << json;
  EXPECT_EQ(json.find("aHVzaA"), std::string::npos) << json;
  EXPECT_NE(json.find("shown"), std::string::npos) << json;
}

TEST(TreeJson, WhatIsUnknownIsLeftOut) {
  std::set<std::string> left_out;
  EXPECT_EQ(json_of("envoy.config.core.v3.Pipe", "{ path: /a, other: 1 }", &left_out), R"({"path":"/a"})");
  EXPECT_EQ(left_out, std::set<std::string>{"envoy.config.core.v3.Pipe: other"});
  EXPECT_EQ(json_of("envoy.nothing.v3.X", "{ a: 1 }", &left_out), "{}");
  EXPECT_EQ(left_out, std::set<std::string>{"envoy.nothing.v3.X"});
  EXPECT_EQ(json_of("envoy.config.core.v3.Pipe", "[ 1 ]"), "{}");
}

}  // namespace
}  // namespace sluice::envoy
