#include "proxy/envoy/field_table.h"

namespace sluice::envoy {
namespace {

using enum Support;

// envoy.config.cluster.v3.Cluster
constexpr FieldRule kOfConfigClusterCluster[] = {
    {"name", kYes},
    {"alt_stat_name", kYes},
    {"type", kYes, "STATIC, STRICT_DNS, LOGICAL_DNS, EDS"},
    {"cluster_type", kYes, "strict_dns, logical_dns", "envoy.config.cluster.v3.Cluster.CustomClusterType"},
    {"eds_cluster_config", kYes, "the endpoints have to be in the input",
     "envoy.config.cluster.v3.Cluster.EdsClusterConfig"},
    {"connect_timeout", kYes, "`connect_timeout`"},
    {"per_connection_buffer_limit_bytes", kIgnored},
    {"lb_policy", kYes, "ROUND_ROBIN, LEAST_REQUEST, RANDOM, RING_HASH, MAGLEV"},
    {"load_assignment", kYes, "", "envoy.config.endpoint.v3.ClusterLoadAssignment"},
    {"health_checks", kYes, "one", "envoy.config.core.v3.HealthCheck"},
    {"max_requests_per_connection", kYes, "`pool.max_requests`"},
    {"circuit_breakers", kYes, "", "envoy.config.cluster.v3.CircuitBreakers"},
    {"upstream_http_protocol_options", kRefused},
    {"common_http_protocol_options", kYes, "", "envoy.config.core.v3.HttpProtocolOptions"},
    {"http_protocol_options", kYes, "", "envoy.config.core.v3.Http1ProtocolOptions"},
    {"http2_protocol_options", kYes, "`protocol: http2`", "envoy.config.core.v3.Http2ProtocolOptions"},
    {"typed_extension_protocol_options", kYes, "HttpProtocolOptions"},
    {"dns_refresh_rate", kIgnored, "names are looked up again as their TTL says"},
    {"dns_jitter", kIgnored},
    {"dns_failure_refresh_rate", kIgnored},
    {"respect_dns_ttl", kYes, "always so"},
    {"dns_lookup_family", kYes, "`resolve.family`"},
    {"dns_resolvers", kIgnored, "see `resolve.servers`"},
    {"use_tcp_for_dns_lookups", kIgnored},
    {"dns_resolution_config", kIgnored, "see `resolve.servers`"},
    {"typed_dns_resolver_config", kIgnored, "see `resolve.servers`"},
    {"wait_for_warm_on_init", kYes},
    {"outlier_detection", kYes, "`ejection`", "envoy.config.cluster.v3.OutlierDetection"},
    {"cleanup_interval", kYes},
    {"upstream_bind_config", kRefused},
    {"lb_subset_config", kRefused, "endpoints have no subsets"},
    {"ring_hash_lb_config", kIgnored},
    {"maglev_lb_config", kIgnored},
    {"original_dst_lb_config", kRefused},
    {"least_request_lb_config", kIgnored},
    {"round_robin_lb_config", kIgnored},
    {"common_lb_config", kYes, "", "envoy.config.cluster.v3.Cluster.CommonLbConfig"},
    {"transport_socket", kYes, "TLS, PROXY protocol", "envoy.config.core.v3.TransportSocket"},
    {"transport_socket_matches", kYes, "the same for all endpoints",
     "envoy.config.cluster.v3.Cluster.TransportSocketMatch"},
    {"transport_socket_matcher", kRefused},
    {"metadata", kYes},
    {"protocol_selection", kRefused, "the protocol is the cluster's"},
    {"upstream_connection_options", kYes, "", "envoy.config.cluster.v3.UpstreamConnectionOptions"},
    {"close_connections_on_host_health_failure", kIgnored},
    {"ignore_health_on_host_removal", kIgnored},
    {"filters", kRefused},
    {"load_balancing_policy", kYes, "", "envoy.config.cluster.v3.LoadBalancingPolicy"},
    {"lrs_server", kYes, "with `--xds` and `self`: see docs/guides/control-plane.md"},
    {"lrs_report_endpoint_metrics", kIgnored},
    {"track_timeout_budgets", kIgnored},
    {"track_cluster_stats", kIgnored},
    {"upstream_config", kRefused},
    {"preconnect_policy", kIgnored},
    {"connection_pool_per_downstream_connection", kRefused},
};
// envoy.config.cluster.v3.Cluster.TransportSocketMatch
constexpr FieldRule kOfConfigClusterClusterTransportSocketMatch[] = {
    {"name", kYes},
    {"match", kYes, "compared with `envoy.transport_socket_match` in the metadata of endpoints"},
    {"transport_socket", kYes, "TLS, PROXY protocol", "envoy.config.core.v3.TransportSocket"},
};
// envoy.config.cluster.v3.Cluster.CommonLbConfig
constexpr FieldRule kOfConfigClusterClusterCommonLbConfig[] = {
    {"healthy_panic_threshold", kIgnored},
    {"zone_aware_lb_config", kIgnored, "endpoints of all localities are used alike"},
    {"locality_weighted_lb_config", kYes, "a locality's weight becomes the `weight` of its endpoints"},
    {"update_merge_window", kIgnored},
    {"ignore_new_hosts_until_first_hc", kIgnored},
    {"close_connections_on_host_set_change", kIgnored},
    {"consistent_hashing_lb_config", kIgnored},
    {"override_host_status", kIgnored},
};
// envoy.config.cluster.v3.Cluster.CustomClusterType
constexpr FieldRule kOfConfigClusterClusterCustomClusterType[] = {
    {"name", kYes},
    {"typed_config", kYes},
};
// envoy.extensions.clusters.dns.v3.DnsCluster
constexpr FieldRule kOfExtensionsClustersDnsDnsCluster[] = {
    {"dns_refresh_rate", kIgnored},
    {"dns_failure_refresh_rate", kIgnored},
    {"respect_dns_ttl", kYes, "always so"},
    {"dns_jitter", kIgnored},
    {"typed_dns_resolver_config", kIgnored},
    {"dns_lookup_family", kYes, "`resolve.family`"},
    {"all_addresses_in_single_endpoint", kYes},
};
// envoy.config.cluster.v3.Cluster.EdsClusterConfig
constexpr FieldRule kOfConfigClusterClusterEdsClusterConfig[] = {
    {"eds_config", kYes, "the endpoints have to be in the input"},
    {"service_name", kYes},
};
// envoy.config.cluster.v3.LoadBalancingPolicy
constexpr FieldRule kOfConfigClusterLoadBalancingPolicy[] = {
    {"policies", kYes, "the first that is known", "envoy.config.cluster.v3.LoadBalancingPolicy.Policy"},
};
// envoy.config.cluster.v3.LoadBalancingPolicy.Policy
constexpr FieldRule kOfConfigClusterLoadBalancingPolicyPolicy[] = {
    {"typed_extension_config", kYes, "RoundRobin, LeastRequest, Random, RingHash, Maglev",
     "envoy.config.core.v3.TypedExtensionConfig"},
};
// envoy.extensions.load_balancing_policies.common.v3.LocalityLbConfig
constexpr FieldRule kOfExtensionsLoadBalancingPoliciesCommonLocalityLbConfig[] = {
    {"zone_aware_lb_config", kIgnored, "endpoints of all localities are used alike"},
    {"locality_weighted_lb_config", kYes, "a locality's weight becomes the `weight` of its endpoints"},
};
// envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest
constexpr FieldRule kOfExtensionsLoadBalancingPoliciesLeastRequest[] = {
    {"choice_count", kIgnored},
    {"active_request_bias", kIgnored},
    {"slow_start_config", kIgnored},
    {"locality_lb_config", kYes, "", "envoy.extensions.load_balancing_policies.common.v3.LocalityLbConfig"},
    {"enable_full_scan", kIgnored},
    {"selection_method", kIgnored},
};
// envoy.extensions.load_balancing_policies.maglev.v3.Maglev
constexpr FieldRule kOfExtensionsLoadBalancingPoliciesMaglev[] = {
    {"table_size", kIgnored},
    {"consistent_hashing_lb_config", kIgnored},
    {"locality_weighted_lb_config", kYes, "a locality's weight becomes the `weight` of its endpoints"},
};
// envoy.extensions.load_balancing_policies.random.v3.Random
constexpr FieldRule kOfExtensionsLoadBalancingPoliciesRandom[] = {
    {"locality_lb_config", kYes, "", "envoy.extensions.load_balancing_policies.common.v3.LocalityLbConfig"},
};
// envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash
constexpr FieldRule kOfExtensionsLoadBalancingPoliciesRingHash[] = {
    {"hash_function", kIgnored},
    {"minimum_ring_size", kIgnored},
    {"maximum_ring_size", kIgnored},
    {"use_hostname_for_hashing", kIgnored},
    {"hash_balance_factor", kIgnored},
    {"consistent_hashing_lb_config", kIgnored},
    {"locality_weighted_lb_config", kYes, "a locality's weight becomes the `weight` of its endpoints"},
};
// envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin
constexpr FieldRule kOfExtensionsLoadBalancingPoliciesRoundRobin[] = {
    {"slow_start_config", kIgnored},
    {"locality_lb_config", kYes, "", "envoy.extensions.load_balancing_policies.common.v3.LocalityLbConfig"},
};
// envoy.config.cluster.v3.UpstreamConnectionOptions
constexpr FieldRule kOfConfigClusterUpstreamConnectionOptions[] = {
    {"tcp_keepalive", kYes, "`keepalive`", "envoy.config.core.v3.TcpKeepalive"},
    {"set_local_interface_name_on_upstream_connections", kIgnored},
    {"happy_eyeballs_config", kIgnored},
};
// envoy.config.core.v3.TcpKeepalive
constexpr FieldRule kOfConfigCoreTcpKeepalive[] = {
    {"keepalive_probes", kYes},
    {"keepalive_time", kYes},
    {"keepalive_interval", kYes},
};
// envoy.config.cluster.v3.CircuitBreakers
constexpr FieldRule kOfConfigClusterCircuitBreakers[] = {
    {"thresholds", kYes, "of the priority DEFAULT", "envoy.config.cluster.v3.CircuitBreakers.Thresholds"},
    {"per_host_thresholds", kYes, "", "envoy.config.cluster.v3.CircuitBreakers.Thresholds"},
};
// envoy.config.cluster.v3.CircuitBreakers.Thresholds
constexpr FieldRule kOfConfigClusterCircuitBreakersThresholds[] = {
    {"priority", kYes, "DEFAULT"},
    {"max_connections", kYes, "`max_connections_per_endpoint`, of each endpoint"},
    {"max_pending_requests", kYes, "`pool.max_pending`, of each worker"},
    {"max_requests", kIgnored},
    {"max_retries", kIgnored, "see `retry_budget`"},
    {"retry_budget", kYes, "`retry_budget`", "envoy.config.cluster.v3.CircuitBreakers.Thresholds.RetryBudget"},
    {"track_remaining", kYes},
    {"max_connection_pools", kIgnored},
};
// envoy.config.cluster.v3.CircuitBreakers.Thresholds.RetryBudget
constexpr FieldRule kOfConfigClusterCircuitBreakersThresholdsRetryBudget[] = {
    {"budget_percent", kYes, "", "envoy.type.v3.Percent"},
    {"min_retry_concurrency", kIgnored},
};
// envoy.type.v3.Percent
constexpr FieldRule kOfTypePercent[] = {
    {"value", kYes},
};
// envoy.config.cluster.v3.OutlierDetection
constexpr FieldRule kOfConfigClusterOutlierDetection[] = {
    {"consecutive_5xx", kYes, "`consecutive_errors`"},
    {"interval", kYes, "endpoints are ejected at once"},
    {"base_ejection_time", kYes, "`time`"},
    {"max_ejection_time", kYes, "`max_time`"},
    {"max_ejection_percent", kYes, "`max_share`; without it 10"},
    {"enforcing_consecutive_5xx", kYes, "0: none are ejected for it"},
    {"consecutive_gateway_failure", kYes, "`gateway_errors`"},
    {"enforcing_consecutive_gateway_failure", kYes, "0, as without it: none are ejected for it"},
    {"split_external_local_origin_errors", kIgnored, "errors of both kinds count"},
    {"consecutive_local_origin_failure", kYes, "`max_fails`"},
    {"enforcing_consecutive_local_origin_failure", kIgnored},
    {"enforcing_success_rate", kIgnored},
    {"success_rate_minimum_hosts", kIgnored},
    {"success_rate_request_volume", kIgnored},
    {"success_rate_stdev_factor", kIgnored},
    {"enforcing_local_origin_success_rate", kIgnored},
    {"failure_percentage_threshold", kIgnored},
    {"enforcing_failure_percentage", kIgnored},
    {"enforcing_failure_percentage_local_origin", kIgnored},
    {"failure_percentage_minimum_hosts", kIgnored},
    {"failure_percentage_request_volume", kIgnored},
    {"max_ejection_time_jitter", kIgnored},
    {"successful_active_health_check_uneject_host", kIgnored},
    {"monitors", kIgnored},
    {"always_eject_one_host", kIgnored},
};
// envoy.config.core.v3.HealthCheck
constexpr FieldRule kOfConfigCoreHealthCheck[] = {
    {"timeout", kYes},
    {"interval", kYes},
    {"initial_jitter", kIgnored},
    {"interval_jitter", kIgnored},
    {"interval_jitter_percent", kIgnored},
    {"unhealthy_threshold", kYes},
    {"healthy_threshold", kYes},
    {"alt_port", kYes, "`port`"},
    {"reuse_connection", kIgnored},
    {"http_health_check", kYes, "", "envoy.config.core.v3.HealthCheck.HttpHealthCheck"},
    {"tcp_health_check", kYes, "a successful connect", "envoy.config.core.v3.HealthCheck.TcpHealthCheck"},
    {"grpc_health_check", kYes, "", "envoy.config.core.v3.HealthCheck.GrpcHealthCheck"},
    {"custom_health_check", kRefused},
    {"no_traffic_interval", kIgnored},
    {"no_traffic_healthy_interval", kIgnored},
    {"unhealthy_interval", kIgnored},
    {"unhealthy_edge_interval", kIgnored},
    {"healthy_edge_interval", kIgnored},
    {"event_log_path", kIgnored},
    {"event_logger", kIgnored},
    {"event_service", kIgnored},
    {"always_log_health_check_failures", kIgnored},
    {"always_log_health_check_success", kIgnored},
    {"tls_options", kRefused},
    {"transport_socket_match_criteria", kRefused},
};
// envoy.config.core.v3.HealthCheck.HttpHealthCheck
constexpr FieldRule kOfConfigCoreHealthCheckHttpHealthCheck[] = {
    {"host", kYes},
    {"path", kYes},
    {"send", kRefused},
    {"receive", kRefused},
    {"response_buffer_size", kYes},
    {"request_headers_to_add", kRefused},
    {"request_headers_to_remove", kRefused},
    {"expected_statuses", kYes, "without it 2xx and 3xx, in Envoy 200", "envoy.type.v3.Int64Range"},
    {"retriable_statuses", kIgnored},
    {"codec_client_type", kIgnored, "the protocol is the cluster's"},
    {"service_name_matcher", kRefused},
    {"method", kRefused},
};
// envoy.config.core.v3.HealthCheck.TcpHealthCheck
constexpr FieldRule kOfConfigCoreHealthCheckTcpHealthCheck[] = {
    {"send", kRefused},
    {"receive", kRefused},
    {"proxy_protocol_config", kRefused},
};
// envoy.config.core.v3.HealthCheck.GrpcHealthCheck
constexpr FieldRule kOfConfigCoreHealthCheckGrpcHealthCheck[] = {
    {"service_name", kYes},
    {"authority", kIgnored},
    {"initial_metadata", kRefused},
};
// envoy.type.v3.Int64Range
constexpr FieldRule kOfTypeInt64Range[] = {
    {"start", kYes},
    {"end", kYes, "not included"},
};
// envoy.extensions.upstreams.http.v3.HttpProtocolOptions
constexpr FieldRule kOfExtensionsUpstreamsHttpHttpProtocolOptions[] = {
    {"common_http_protocol_options", kYes, "", "envoy.config.core.v3.HttpProtocolOptions"},
    {"upstream_http_protocol_options", kRefused},
    {"explicit_http_config", kYes, "", "envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig"},
    {"use_downstream_protocol_config", kRefused, "HTTP/1.1 is spoken, whatever the client speaks"},
    {"auto_config", kIgnored, "HTTP/1.1 is spoken, unless explicit_http_config says HTTP/2"},
    {"http_filters", kRefused},
    {"header_validation_config", kIgnored},
    {"outlier_detection", kRefused},
    {"retry_policy", kRefused},
    {"request_mirror_policies", kRefused},
    {"hash_policy", kRefused},
};
// envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig
constexpr FieldRule kOfExtensionsUpstreamsHttpHttpProtocolOptionsExplicitHttpConfig[] = {
    {"http_protocol_options", kYes, "", "envoy.config.core.v3.Http1ProtocolOptions"},
    {"http2_protocol_options", kYes, "`protocol: http2`", "envoy.config.core.v3.Http2ProtocolOptions"},
    {"http3_protocol_options", kRefused, "HTTP/3 is not spoken"},
};
// envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport
constexpr FieldRule kOfExtensionsTransportsocketsProxyprotocolProxyProtocolUpstreamTransport[] = {
    {"config", kYes, "`send_proxy_protocol`, not for HTTP", "envoy.config.core.v3.ProxyProtocolConfig"},
    {"transport_socket", kYes, "", "envoy.config.core.v3.TransportSocket"},
    {"allow_unspecified_address", kIgnored},
    {"tlv_as_pool_key", kIgnored},
};
// envoy.config.core.v3.ProxyProtocolConfig
constexpr FieldRule kOfConfigCoreProxyProtocolConfig[] = {
    {"version", kYes, "V1, V2"},
    {"pass_through_tlvs", kRefused},
    {"added_tlvs", kRefused},
};
// envoy.config.endpoint.v3.ClusterLoadAssignment
constexpr FieldRule kOfConfigEndpointClusterLoadAssignment[] = {
    {"cluster_name", kYes},
    {"endpoints", kYes, "", "envoy.config.endpoint.v3.LocalityLbEndpoints"},
    {"named_endpoints", kRefused},
    {"policy", kYes, "", "envoy.config.endpoint.v3.ClusterLoadAssignment.Policy"},
};
// envoy.config.endpoint.v3.ClusterLoadAssignment.Policy
constexpr FieldRule kOfConfigEndpointClusterLoadAssignmentPolicy[] = {
    {"drop_overloads", kRefused},
    {"overprovisioning_factor", kYes, "`failover_below`"},
    {"endpoint_stale_after", kIgnored},
    {"weighted_priority_health", kIgnored},
};
// envoy.config.endpoint.v3.LocalityLbEndpoints
constexpr FieldRule kOfConfigEndpointLocalityLbEndpoints[] = {
    {"locality", kYes, "endpoints of all localities are used alike"},
    {"metadata", kYes},
    {"lb_endpoints", kYes, "", "envoy.config.endpoint.v3.LbEndpoint"},
    {"load_balancer_endpoints", kRefused},
    {"leds_cluster_locality_config", kRefused},
    {"load_balancing_weight", kYes, "where the cluster, or its policy, has locality_weighted_lb_config"},
    {"priority", kYes, "`priority`, up to 15"},
    {"proximity", kIgnored},
};
// envoy.config.endpoint.v3.LbEndpoint
constexpr FieldRule kOfConfigEndpointLbEndpoint[] = {
    {"endpoint", kYes, "", "envoy.config.endpoint.v3.Endpoint"},
    {"endpoint_name", kRefused},
    {"health_status", kYes, "those that are UNHEALTHY, DRAINING or TIMEOUT are left out"},
    {"metadata", kYes},
    {"load_balancing_weight", kYes, "`weight`, in proportion up to 1000"},
};
// envoy.config.endpoint.v3.Endpoint
constexpr FieldRule kOfConfigEndpointEndpoint[] = {
    {"address", kYes, "", "envoy.config.core.v3.Address"},
    {"hostname", kYes, "for auto_host_rewrite"},
    {"health_check_config", kRefused},
    {"additional_addresses", kIgnored},
};

}  // namespace

std::span<const MessageRule> cluster_messages() {
  static const MessageRule messages[] = {
      {"envoy.config.cluster.v3.Cluster", kOfConfigClusterCluster},
      {"envoy.config.cluster.v3.Cluster.TransportSocketMatch", kOfConfigClusterClusterTransportSocketMatch},
      {"envoy.config.cluster.v3.Cluster.CommonLbConfig", kOfConfigClusterClusterCommonLbConfig},
      {"envoy.config.cluster.v3.Cluster.CustomClusterType", kOfConfigClusterClusterCustomClusterType},
      {"envoy.extensions.clusters.dns.v3.DnsCluster", kOfExtensionsClustersDnsDnsCluster},
      {"envoy.config.cluster.v3.Cluster.EdsClusterConfig", kOfConfigClusterClusterEdsClusterConfig},
      {"envoy.config.cluster.v3.LoadBalancingPolicy", kOfConfigClusterLoadBalancingPolicy},
      {"envoy.config.cluster.v3.LoadBalancingPolicy.Policy", kOfConfigClusterLoadBalancingPolicyPolicy},
      {"envoy.extensions.load_balancing_policies.common.v3.LocalityLbConfig",
       kOfExtensionsLoadBalancingPoliciesCommonLocalityLbConfig},
      {"envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest",
       kOfExtensionsLoadBalancingPoliciesLeastRequest},
      {"envoy.extensions.load_balancing_policies.maglev.v3.Maglev", kOfExtensionsLoadBalancingPoliciesMaglev},
      {"envoy.extensions.load_balancing_policies.random.v3.Random", kOfExtensionsLoadBalancingPoliciesRandom},
      {"envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash", kOfExtensionsLoadBalancingPoliciesRingHash},
      {"envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin",
       kOfExtensionsLoadBalancingPoliciesRoundRobin},
      {"envoy.config.cluster.v3.UpstreamConnectionOptions", kOfConfigClusterUpstreamConnectionOptions},
      {"envoy.config.core.v3.TcpKeepalive", kOfConfigCoreTcpKeepalive},
      {"envoy.config.cluster.v3.CircuitBreakers", kOfConfigClusterCircuitBreakers},
      {"envoy.config.cluster.v3.CircuitBreakers.Thresholds", kOfConfigClusterCircuitBreakersThresholds},
      {"envoy.config.cluster.v3.CircuitBreakers.Thresholds.RetryBudget",
       kOfConfigClusterCircuitBreakersThresholdsRetryBudget},
      {"envoy.type.v3.Percent", kOfTypePercent},
      {"envoy.config.cluster.v3.OutlierDetection", kOfConfigClusterOutlierDetection},
      {"envoy.config.core.v3.HealthCheck", kOfConfigCoreHealthCheck},
      {"envoy.config.core.v3.HealthCheck.HttpHealthCheck", kOfConfigCoreHealthCheckHttpHealthCheck},
      {"envoy.config.core.v3.HealthCheck.TcpHealthCheck", kOfConfigCoreHealthCheckTcpHealthCheck},
      {"envoy.config.core.v3.HealthCheck.GrpcHealthCheck", kOfConfigCoreHealthCheckGrpcHealthCheck},
      {"envoy.type.v3.Int64Range", kOfTypeInt64Range},
      {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions", kOfExtensionsUpstreamsHttpHttpProtocolOptions},
      {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig",
       kOfExtensionsUpstreamsHttpHttpProtocolOptionsExplicitHttpConfig},
      {"envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
       kOfExtensionsTransportsocketsProxyprotocolProxyProtocolUpstreamTransport},
      {"envoy.config.core.v3.ProxyProtocolConfig", kOfConfigCoreProxyProtocolConfig},
      {"envoy.config.endpoint.v3.ClusterLoadAssignment", kOfConfigEndpointClusterLoadAssignment},
      {"envoy.config.endpoint.v3.ClusterLoadAssignment.Policy", kOfConfigEndpointClusterLoadAssignmentPolicy},
      {"envoy.config.endpoint.v3.LocalityLbEndpoints", kOfConfigEndpointLocalityLbEndpoints},
      {"envoy.config.endpoint.v3.LbEndpoint", kOfConfigEndpointLbEndpoint},
      {"envoy.config.endpoint.v3.Endpoint", kOfConfigEndpointEndpoint},
  };
  return messages;
}

}  // namespace sluice::envoy
