// Clusters, endpoints, listeners and TLS.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "test/proxy/envoy/mapped.h"

namespace sluice::envoy {
namespace {

struct ClusterRule {
  std::string name, cluster, expected;
};
class ClusterMapping : public testing::TestWithParam<ClusterRule> {};

TEST_P(ClusterMapping, IsAsExpected) {
  const Mapped mapped = map_yaml(with_cluster("      " + GetParam().cluster + "\n"));
  EXPECT_TRUE(mapped.has(GetParam().expected)) << mapped.text;
  EXPECT_EQ(mapped.error, "") << mapped.text;
  EXPECT_EQ(mapped.refused, 0U) << mapped.findings.front();
}

INSTANTIATE_TEST_SUITE_P(
    Rules, ClusterMapping,
    testing::Values(
        ClusterRule{"LeastRequest", "lb_policy: LEAST_REQUEST", "balance: least_request"},
        ClusterRule{"Maglev", "lb_policy: MAGLEV", "balance: maglev"},
        ClusterRule{
            "PolicyByType",
            R"(load_balancing_policy: { policies: [ { typed_extension_config: { name: x, typed_config: { "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.random.v3.Random } } } ] })",
            "balance: random"},
        ClusterRule{"ConnectTimeout", "connect_timeout: 0.25s", "connect_timeout: 250ms"},
        ClusterRule{"Http2", "http2_protocol_options: { max_concurrent_streams: 10 }", "protocol: http2"},
        ClusterRule{
            "Http2ByOptions",
            R"(typed_extension_protocol_options: { x: { "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: { http2_protocol_options: {} }, common_http_protocol_options: { idle_timeout: 9s } } })",
            "pool: { idle_timeout: 9s }\n    protocol: http2"},
        ClusterRule{
            "ProtocolByAlpn",
            R"(typed_extension_protocol_options: { x: { "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, auto_config: { http2_protocol_options: {} } } })",
            "name: app\n    endpoints:"},
        ClusterRule{"HttpCheck",
                    "health_checks: [ { interval: 1s, timeout: 2s, healthy_threshold: 2, unhealthy_threshold: 3, "
                    "http_health_check: { path: /h, "
                    "expected_statuses: [ { start: 200, end: 202 } ] } } ]",
                    "http: { path: /h, status: [ 200, 201 ] }"},
        ClusterRule{"Outliers",
                    "outlier_detection: { consecutive_5xx: 3, base_ejection_time: 10s, max_ejection_percent: 30 }",
                    "ejection: { consecutive_errors: 3, time: 10s, max_time: 5m, max_share: 30 }"},
        ClusterRule{"Breakers", "circuit_breakers: { thresholds: [ { max_connections: 5, max_pending_requests: 7 } ] }",
                    "max_connections_per_endpoint: 5\n    pool: { max_pending: 7 }"},
        ClusterRule{"Keepalive",
                    "upstream_connection_options: { tcp_keepalive: { keepalive_time: 60, keepalive_probes: 3 } }",
                    "keepalive: { idle: 60s, probes: 3 }"},
        ClusterRule{
            "TlsWithoutAuthority",
            R"(transport_socket: { name: t, typed_config: { "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, sni: a.test } })",
            "tls: { verify: false, server_name: a.test }"},
        ClusterRule{
            "TlsWithName",
            R"(transport_socket: { name: t, typed_config: { "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: { validation_context: { trusted_ca: { filename: /ca.pem }, match_typed_subject_alt_names: [ { san_type: DNS, matcher: { exact: a.test } } ] } } } })",
            "tls: { ca: /ca.pem, server_name: a.test }"},
        ClusterRule{
            "TlsWithAnotherName",
            R"(transport_socket: { name: t, typed_config: { "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, sni: a.test, common_tls_context: { validation_context: { trusted_ca: { filename: /ca.pem }, match_typed_subject_alt_names: [ { san_type: DNS, matcher: { exact: b.test } } ] } } } })",
            "tls: { ca: /ca.pem, server_name: a.test, verify_names: [ b.test ] }"},
        ClusterRule{
            "TlsWithSeveralNames",
            R"(transport_socket: { name: t, typed_config: { "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: { validation_context: { trusted_ca: { filename: /ca.pem }, match_typed_subject_alt_names: [ { san_type: URI, matcher: { exact: "spiffe://mesh/app" } }, { san_type: IP_ADDRESS, matcher: { exact: 10.0.0.1 } } ] } } } })",
            "tls: { ca: /ca.pem, verify_names: [ spiffe://mesh/app, 10.0.0.1 ] }"},
        ClusterRule{
            "ProxyProtocol",
            R"(transport_socket: { name: t, typed_config: { "@type": type.googleapis.com/envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport, config: { version: V2 } } })",
            "send_proxy_protocol: v2"}),
    [](const testing::TestParamInfo<ClusterRule>& rule) { return rule.param.name; });

TEST(Endpoints, WeightsPrioritiesAndHealth) {
  const Mapped mapped = map_yaml(with_cluster(R"(      load_assignment:
        cluster_name: app
        policy: { overprovisioning_factor: 200 }
        endpoints:
          - lb_endpoints:
              - { endpoint: { address: { socket_address: { address: 10.0.0.1, port_value: 80 } } }, load_balancing_weight: 4000 }
              - { endpoint: { address: { socket_address: { address: "::1", port_value: 80 } } }, load_balancing_weight: 2000 }
              - { endpoint: { address: { socket_address: { address: 10.0.0.9, port_value: 80 } } }, health_status: DRAINING }
          - priority: 1
            lb_endpoints: [ { endpoint: { address: { pipe: { path: /run/a.sock } } }, load_balancing_weight: 4 } ]
)",
                                              false));
  EXPECT_TRUE(mapped.has("{ address: 10.0.0.1:80, weight: 1000 }")) << mapped.text;
  EXPECT_TRUE(mapped.has(R"({ address: "[::1]:80", weight: 500 })"));
  EXPECT_TRUE(mapped.has("{ address: unix:/run/a.sock, priority: 1 }"));
  EXPECT_FALSE(mapped.has("10.0.0.9"));
  EXPECT_TRUE(mapped.has("failover_below: 50"));
  EXPECT_EQ(mapped.error, "");
}

TEST(Endpoints, WeightsOfLocalities) {
  const std::string assignment = R"(      load_assignment:
        cluster_name: app
        endpoints:
          - load_balancing_weight: 70
            lb_endpoints: [ { endpoint: { address: { socket_address: { address: 10.0.0.1, port_value: 80 } } } } ]
          - load_balancing_weight: 30
            lb_endpoints: [ { endpoint: { address: { socket_address: { address: 10.0.0.2, port_value: 80 } } } } ]
          - lb_endpoints: [ { endpoint: { address: { socket_address: { address: 10.0.0.3, port_value: 80 } } } } ]
)";
  const Mapped weighted =
      map_yaml(with_cluster(assignment + "      common_lb_config: { locality_weighted_lb_config: {} }\n", false));
  EXPECT_TRUE(weighted.has("{ address: 10.0.0.1:80, weight: 70 }")) << weighted.text;
  EXPECT_TRUE(weighted.has("{ address: 10.0.0.2:80, weight: 30 }"));
  EXPECT_FALSE(weighted.has("10.0.0.3"));
  EXPECT_EQ(weighted.error, "");
  for (const std::string_view policy :
       {"least_request.v3.LeastRequest, locality_lb_config: { locality_weighted_lb_config: {} }",
        "maglev.v3.Maglev, locality_weighted_lb_config: {}"}) {
    const Mapped by_policy = map_yaml(with_cluster(
        absl::StrCat(assignment,
                     "      load_balancing_policy: { policies: [ { typed_extension_config: { name: p, typed_config: { ",
                     R"("@type": type.googleapis.com/envoy.extensions.load_balancing_policies.)", policy,
                     " } } } ] }\n"),
        false));
    EXPECT_TRUE(by_policy.has("{ address: 10.0.0.1:80, weight: 70 }")) << by_policy.text;
    EXPECT_EQ(by_policy.error, "");
  }
  const Mapped alike = map_yaml(with_cluster(assignment, false));
  EXPECT_TRUE(alike.has("10.0.0.3:80")) << alike.text;
  EXPECT_FALSE(alike.has("weight"));
}

TEST(Endpoints, NamesNeedACluster) {
  const std::string assignment =
      "      load_assignment: { cluster_name: app, endpoints: [ { lb_endpoints: [ { endpoint: { address: { "
      "socket_address: { address: a.test, port_value: "
      "80 } } } } ] } ] }\n";
  const Mapped by_name =
      map_yaml(with_cluster(assignment + "      type: STRICT_DNS\n      dns_lookup_family: V4_ONLY\n", false));
  EXPECT_TRUE(by_name.has("endpoints: [ a.test:80 ]")) << by_name.text;
  EXPECT_TRUE(by_name.has("resolve: { family: ip4 }"));
  EXPECT_EQ(by_name.error, "");
  EXPECT_TRUE(map_yaml(with_cluster(assignment, false)).says("is a name: names need a cluster of type STRICT_DNS"));
}

TEST(Clusters, ThatCannotVerifyAreNotUsed) {
  const Mapped mapped = map_yaml(with_cluster(
      R"(      transport_socket: { name: t, typed_config: { "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: { validation_context: { trusted_ca: { filename: /ca.pem } } } } }
)"));
  EXPECT_TRUE(mapped.says("name the server that the certificates are for")) << mapped.text;
  EXPECT_FALSE(mapped.has("10.0.0.1:80"));
}

// As Envoy Gateway sends BackendTLSPolicy.
TEST(Clusters, TransportSocketsByMetadata) {
  const auto endpoint = [](std::string_view address, std::string_view name) {
    return absl::StrCat("{ endpoint: { address: { socket_address: { address: ", address,
                        ", port_value: 80 } } }, metadata: { filter_metadata: { envoy.transport_socket_match: { name: ",
                        name, " } } } }");
  };
  const auto match = [](std::string_view name, std::string_view server) {
    return absl::StrCat(
        "{ name: ", name, ", match: { name: ", name, " }, transport_socket: { name: t, typed_config: { ",
        R"("@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, sni: )", server,
        " } } }");
  };
  const auto mapped = [&](std::string_view second_server, std::string_view second) {
    return map_yaml(with_cluster(
        absl::StrCat("      transport_socket_matches: [ ", match("x", "a.test"), ", ", match("y", second_server),
                     " ]\n", "      load_assignment: { cluster_name: app, endpoints: [ { lb_endpoints: [ ",
                     endpoint("10.0.0.1", "x"), ", ", endpoint("10.0.0.2", second), " ] } ] }\n"),
        false));
  };
  for (const Mapped& same : {mapped("b.test", "x"), mapped("a.test", "y")}) {
    EXPECT_TRUE(same.has("tls: { verify: false, server_name: a.test }")) << same.text;
    EXPECT_EQ(same.refused, 0U);
    EXPECT_EQ(same.error, "");
  }
  // Another name, or none for the second endpoint: it would be sent requests without TLS, or with another server's.
  for (const Mapped& other : {mapped("b.test", "y"), mapped("b.test", "z")}) {
    EXPECT_TRUE(other.says("transport_socket_matches: refused: an upstream has one `tls`")) << other.text;
    EXPECT_FALSE(other.has("10.0.0.1:80")) << other.text;
  }
}

// ---- Listeners

std::string with_listener(const std::string& listener) {
  return "static_resources:\n  listeners:\n    - name: l\n      address: { socket_address: { address: 0.0.0.0, "
         "port_value: 443 } }\n" +
         listener +
         R"(  clusters:
    - { name: a, load_assignment: { cluster_name: a, endpoints: [ { lb_endpoints: [ { endpoint: { address: { socket_address: { address: 10.0.0.1, port_value: 80 } } } } ] } ] } }
    - { name: b, load_assignment: { cluster_name: b, endpoints: [ { lb_endpoints: [ { endpoint: { address: { socket_address: { address: 10.0.0.2, port_value: 80 } } } } ] } ] } }
  secrets:
    - { name: cert, tls_certificate: { certificate_chain: { filename: /c.pem }, private_key: { filename: /k.pem } } }
)";
}

std::string tcp(const std::string& cluster) {
  return R"(filters: [ { name: t, typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: )" +
         cluster + " } } ]";
}

std::string tls(const std::string& members) {
  return R"(transport_socket: { name: s, typed_config: { "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext, )" +
         members + " } }, ";
}

TEST(Listeners, RoutesByServerName) {
  const Mapped mapped = map_yaml(with_listener(
      "      filter_chains: [ { " + tcp("a") + " }, { filter_chain_match: { server_names: [ '*.b.test' ] }, " +
      tcp("b") + " }, { filter_chain_match: { server_names: [ x.b.test ], application_protocols: [ h2 ] }, " +
      tcp("a") + " } ]\n"));
  EXPECT_TRUE(mapped.has("match: { sni: x.b.test, alpn: h2 }\n          forward: a\n        - match: { sni: "
                         "\"*.b.test\" }\n          forward: b\n"
                         "        - forward: a") ||
              mapped.has("- { forward: a }"))
      << mapped.text;
  EXPECT_EQ(mapped.error, "");
}

// A control plane sends a listener before its cluster. Defect: it was rejected.
TEST(Listeners, WaitForTheirClusters) {
  const std::string yaml = with_listener("      filter_chains: [ { " + tcp("none") + " } ]\n");
  const Mapped waits = map_yaml(yaml, true);
  EXPECT_EQ(waits.refused, 0U) << waits.findings.front();
  EXPECT_TRUE(waits.says("no cluster can be used: the listener is left out"));
  EXPECT_EQ(map_yaml(yaml).refused, 2U);
}

TEST(Listeners, Tls) {
  const Mapped mapped = map_yaml(with_listener("      filter_chains: [ { " +
                                               tls("require_client_certificate: true, common_tls_context: { "
                                                   "tls_params: { tls_minimum_protocol_version: TLSv1_3 }, "
                                                   "tls_certificate_sds_secret_configs: [ { name: cert } ], "
                                                   "validation_context: { trusted_ca: { filename: /ca.pem } } }") +
                                               tcp("a") + " } ]\n"));
  EXPECT_TRUE(mapped.has("certificates: [ { chain: /c.pem, key: /k.pem } ]")) << mapped.text;
  EXPECT_TRUE(mapped.has("client_ca: /ca.pem"));
  EXPECT_TRUE(mapped.has("client_certificate: require"));
  EXPECT_TRUE(mapped.has("min_version: 1.3"));
  EXPECT_EQ(mapped.error, "");
  EXPECT_EQ(mapped.refused, 0U);
}

TEST(Listeners, ThatWouldLetMoreInAreLeftOut) {
  const Mapped names =
      map_yaml(with_listener("      filter_chains: [ { " +
                             tls("require_client_certificate: true, common_tls_context: { "
                                 "tls_certificate_sds_secret_configs: [ { name: cert } ], validation_context: { "
                                 "trusted_ca: { filename: /ca.pem }, match_typed_subject_alt_names: [ { san_type: URI, "
                                 "matcher: { exact: a } } ] } }") +
                             tcp("a") + " } ]\n"));
  EXPECT_FALSE(names.has("name: l")) << names.text;
  EXPECT_TRUE(names.says("clients could get in that must not"));
  const Mapped rbac = map_yaml(with_listener(
      R"(      filter_chains: [ { filters: [ { name: r, typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC } } ] } ])"
      "\n"));
  EXPECT_FALSE(rbac.has("name: l")) << rbac.text;
  EXPECT_TRUE(map_yaml(with_listener("      filter_chains: [ { filter_chain_match: { source_prefix_ranges: [ {} ] }, " +
                                     tcp("a") + " } ]\n"))
                  .says("the filter chain is left out"));
}

TEST(Listeners, InlineSecretsAreRefused) {
  const Mapped mapped = map_yaml(with_listener("      filter_chains: [ { " +
                                               tls("common_tls_context: { tls_certificates: [ { certificate_chain: { "
                                                   "inline_string: x }, private_key: { inline_string: y } } ] }") +
                                               tcp("a") + " } ]\n"));
  EXPECT_TRUE(mapped.says("write it to a file"));
  EXPECT_TRUE(mapped.says("no certificate can be used: the listener is left out"));
}

TEST(Listeners, ProxyProtocol) {
  const Mapped mapped = map_yaml(with_listener(
      R"(      listener_filters: [ { name: p, typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol } } ]
)"
      "      filter_chains: [ { " +
      tcp("a") + " } ]\n"));
  EXPECT_TRUE(mapped.has("proxy_protocol: { accept: required }")) << mapped.text;
  EXPECT_EQ(mapped.error, "");
}

// ---- Files

TEST(Documents, OfTheAdminPage) {
  const Mapped mapped = map_yaml(R"({"configs": [
    {"@type": "type.googleapis.com/envoy.admin.v3.ListenersConfigDump", "dynamic_listeners": [{"name": "l", "active_state": {"listener": {
      "@type": "type.googleapis.com/envoy.config.listener.v3.Listener", "name": "l",
      "address": {"socket_address": {"address": "0.0.0.0", "port_value": 80}}, "filter_chains": [{"filters": [{"name": "t", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "t", "cluster": "outbound|80||a"}}]}]}}}]},
    {"@type": "x", "dynamic_active_clusters": [{"cluster": {"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "outbound|80||a", "type": "EDS"}}]},
    {"@type": "x", "dynamic_endpoint_configs": [{"endpoint_config": {"cluster_name": "outbound|80||a", "endpoints": [{"lb_endpoints": [
      {"endpoint": {"address": {"socket_address": {"address": "10.0.0.1", "port_value": 80}}}}]}]}}]}]})");
  EXPECT_TRUE(mapped.has("forward: outbound-80-a")) << mapped.text;
  EXPECT_TRUE(mapped.has("endpoints: [ 10.0.0.1:80 ]"));
  EXPECT_EQ(mapped.error, "");
  EXPECT_TRUE(mapped.findings.empty()) << mapped.findings.front();
}

}  // namespace
}  // namespace sluice::envoy
