#include "proxy/envoy/field_table.h"

namespace sluice::envoy {
namespace {

using enum Support;

// envoy.config.route.v3.RouteConfiguration
constexpr FieldRule kOfConfigRouteRouteConfiguration[] = {
    {"name", kYes},
    {"virtual_hosts", kYes, "routes with `match.host`", "envoy.config.route.v3.VirtualHost"},
    {"vhds", kRefused},
    {"internal_only_headers", kIgnored},
    {"response_headers_to_add", kYes, "on each route", "envoy.config.core.v3.HeaderValueOption"},
    {"response_headers_to_remove", kYes},
    {"request_headers_to_add", kYes, "on each route", "envoy.config.core.v3.HeaderValueOption"},
    {"request_headers_to_remove", kYes},
    {"most_specific_header_mutations_wins", kYes},
    {"validate_clusters", kYes},
    {"max_direct_response_body_size_bytes", kYes},
    {"cluster_specifier_plugins", kRefused},
    {"request_mirror_policies", kYes, "`mirror` of each route",
     "envoy.config.route.v3.RouteAction.RequestMirrorPolicy"},
    {"ignore_port_in_host_matching", kYes, "always so"},
    {"ignore_path_parameters_in_path_matching", kRefused},
    {"typed_per_filter_config", kYes},
    {"metadata", kYes},
};
// envoy.config.route.v3.VirtualHost
constexpr FieldRule kOfConfigRouteVirtualHost[] = {
    {"name", kYes},
    {"domains", kYes, "names, and `*.name`; ports are left out"},
    {"routes", kYes, "", "envoy.config.route.v3.Route"},
    {"matcher", kRefused},
    {"require_tls", kYes, "ALL: redirects of listeners without TLS"},
    {"virtual_clusters", kIgnored, "counters are by listener and upstream"},
    {"rate_limits", kYes, "`rate_limit_descriptors` of each route", "envoy.config.route.v3.RateLimit"},
    {"request_headers_to_add", kYes, "on each route", "envoy.config.core.v3.HeaderValueOption"},
    {"request_headers_to_remove", kYes},
    {"response_headers_to_add", kYes, "on each route", "envoy.config.core.v3.HeaderValueOption"},
    {"response_headers_to_remove", kYes},
    {"cors", kYes, "", "envoy.extensions.filters.http.cors.v3.CorsPolicy"},
    {"typed_per_filter_config", kYes},
    {"include_request_attempt_count", kIgnored},
    {"include_attempt_count_in_response", kIgnored},
    {"retry_policy", kYes, "", "envoy.config.route.v3.RetryPolicy"},
    {"retry_policy_typed_config", kRefused},
    {"hedge_policy", kIgnored, "see `retry.hedge_after`"},
    {"include_is_timeout_retry_header", kIgnored},
    {"per_request_buffer_limit_bytes", kIgnored},
    {"request_body_buffer_limit", kIgnored},
    {"request_mirror_policies", kYes, "`mirror`", "envoy.config.route.v3.RouteAction.RequestMirrorPolicy"},
    {"metadata", kYes},
};
// envoy.config.route.v3.Route
constexpr FieldRule kOfConfigRouteRoute[] = {
    {"name", kYes, "`name`, if it is unique in the listener"},
    {"match", kYes, "", "envoy.config.route.v3.RouteMatch"},
    {"route", kYes, "", "envoy.config.route.v3.RouteAction"},
    {"redirect", kYes, "", "envoy.config.route.v3.RedirectAction"},
    {"direct_response", kYes, "", "envoy.config.route.v3.DirectResponseAction"},
    {"filter_action", kRefused},
    {"non_forwarding_action", kRefused},
    {"metadata", kYes},
    {"decorator", kIgnored},
    {"typed_per_filter_config", kYes},
    {"request_headers_to_add", kYes, "", "envoy.config.core.v3.HeaderValueOption"},
    {"request_headers_to_remove", kYes},
    {"response_headers_to_add", kYes, "", "envoy.config.core.v3.HeaderValueOption"},
    {"response_headers_to_remove", kYes},
    {"tracing", kIgnored},
    {"per_request_buffer_limit_bytes", kIgnored},
    {"request_body_buffer_limit", kIgnored},
    {"stat_prefix", kYes},
};
// envoy.config.route.v3.RouteMatch
constexpr FieldRule kOfConfigRouteRouteMatch[] = {
    {"prefix", kYes, "`path.prefix` if it ends with a slash, else `path.regex`: Envoy compares bytes, Sluice segments"},
    {"path", kYes, "`path.exact`"},
    {"safe_regex", kYes, "`path.regex`", "envoy.type.matcher.v3.RegexMatcher"},
    {"path_separated_prefix", kYes, "`path.prefix`"},
    {"connect_matcher", kYes, "`method: CONNECT`"},
    {"path_match_policy", kRefused},
    {"case_sensitive", kYes, "`false`: `path.regex`"},
    {"runtime_fraction", kYes, "100 % only", "envoy.config.core.v3.RuntimeFractionalPercent"},
    {"headers", kYes, "`match.headers`, `match.method`", "envoy.config.route.v3.HeaderMatcher"},
    {"query_parameters", kYes, "`match.query`", "envoy.config.route.v3.QueryParameterMatcher"},
    {"cookies", kRefused},
    {"grpc", kYes, "a condition on content-type"},
    {"tls_context", kRefused},
    {"dynamic_metadata", kRefused},
    {"filter_state", kRefused},
};
// envoy.config.route.v3.HeaderMatcher
constexpr FieldRule kOfConfigRouteHeaderMatcher[] = {
    {"name", kYes, "a field, or `:method` with exact values"},
    {"string_match", kYes, "", "envoy.type.matcher.v3.StringMatcher"},
    {"exact_match", kYes},
    {"prefix_match", kYes},
    {"suffix_match", kYes},
    {"contains_match", kYes},
    {"safe_regex_match", kYes, "", "envoy.type.matcher.v3.RegexMatcher"},
    {"present_match", kYes},
    {"invert_match", kYes, "`not`"},
    {"range_match", kRefused},
    {"treat_missing_header_as_empty", kRefused},
};
// envoy.config.route.v3.QueryParameterMatcher
constexpr FieldRule kOfConfigRouteQueryParameterMatcher[] = {
    {"name", kYes},
    {"string_match", kYes, "compared as it is written", "envoy.type.matcher.v3.StringMatcher"},
    {"present_match", kYes},
};
// envoy.config.route.v3.RouteAction
constexpr FieldRule kOfConfigRouteRouteAction[] = {
    {"cluster", kYes, "`forward`"},
    {"cluster_header", kRefused},
    {"weighted_clusters", kYes, "`split`", "envoy.config.route.v3.WeightedCluster"},
    {"cluster_specifier_plugin", kRefused},
    {"inline_cluster_specifier_plugin", kRefused},
    {"cluster_not_found_response_code", kIgnored},
    {"metadata_match", kRefused, "endpoints have no subsets"},
    {"prefix_rewrite", kYes, "`rewrite`"},
    {"regex_rewrite", kYes, "`rewrite.regex`", "envoy.type.matcher.v3.RegexMatchAndSubstitute"},
    {"path_rewrite_policy", kRefused},
    {"path_rewrite", kRefused},
    {"host_rewrite_literal", kYes, "`rewrite.host`"},
    {"auto_host_rewrite", kYes, "`rewrite.host`, where the cluster has one name"},
    {"host_rewrite_header", kRefused},
    {"host_rewrite_path_regex", kRefused},
    {"host_rewrite", kRefused},
    {"append_x_forwarded_host", kYes, "field x-forwarded-host"},
    {"timeout", kYes, "`response_timeout`, until the head of the response; without it 15 s"},
    {"idle_timeout", kYes, "`stream_idle_timeout`"},
    {"flush_timeout", kIgnored},
    {"early_data_policy", kIgnored},
    {"retry_policy", kYes, "`retry`", "envoy.config.route.v3.RetryPolicy"},
    {"retry_policy_typed_config", kRefused},
    {"request_mirror_policies", kYes, "`mirror`", "envoy.config.route.v3.RouteAction.RequestMirrorPolicy"},
    {"priority", kYes, "HIGH: `priority: high`"},
    {"rate_limits", kYes, "`rate_limit_descriptors`", "envoy.config.route.v3.RateLimit"},
    {"include_vh_rate_limits", kYes},
    {"hash_policy", kYes, "`hash` of the upstream", "envoy.config.route.v3.RouteAction.HashPolicy"},
    {"cors", kYes, "`cors`", "envoy.extensions.filters.http.cors.v3.CorsPolicy"},
    {"max_grpc_timeout", kIgnored},
    {"grpc_timeout_offset", kIgnored},
    {"upgrade_configs", kYes, "websocket: `http.websocket`, for all routes of the listener",
     "envoy.config.route.v3.RouteAction.UpgradeConfig"},
    {"internal_redirect_policy", kRefused},
    {"internal_redirect_action", kRefused},
    {"max_internal_redirects", kRefused},
    {"hedge_policy", kIgnored, "see `retry.hedge_after`"},
    {"max_stream_duration", kYes, "`request_timeout`", "envoy.config.route.v3.RouteAction.MaxStreamDuration"},
};
// envoy.config.route.v3.RouteAction.UpgradeConfig
constexpr FieldRule kOfConfigRouteRouteActionUpgradeConfig[] = {
    {"upgrade_type", kYes, "websocket"},
    {"enabled", kYes},
    {"connect_config", kRefused},
};
// envoy.config.route.v3.RouteAction.MaxStreamDuration
constexpr FieldRule kOfConfigRouteRouteActionMaxStreamDuration[] = {
    {"max_stream_duration", kYes},
    {"grpc_timeout_header_max", kIgnored},
    {"grpc_timeout_header_offset", kIgnored},
};
// envoy.config.route.v3.RouteAction.RequestMirrorPolicy
constexpr FieldRule kOfConfigRouteRouteActionRequestMirrorPolicy[] = {
    {"cluster", kYes},
    {"cluster_header", kRefused},
    {"runtime_fraction", kYes, "whole percents", "envoy.config.core.v3.RuntimeFractionalPercent"},
    {"trace_sampled", kYes},
    {"disable_shadow_host_suffix_append", kYes, "nothing is appended"},
    {"request_headers_mutations", kRefused},
    {"host_rewrite_literal", kRefused},
};
// envoy.config.route.v3.RouteAction.HashPolicy
constexpr FieldRule kOfConfigRouteRouteActionHashPolicy[] = {
    {"header", kYes, "", "envoy.config.route.v3.RouteAction.HashPolicy.Header"},
    {"cookie", kYes, "", "envoy.config.route.v3.RouteAction.HashPolicy.Cookie"},
    {"connection_properties", kYes, "", "envoy.config.route.v3.RouteAction.HashPolicy.ConnectionProperties"},
    {"query_parameter", kYes, "", "envoy.config.route.v3.RouteAction.HashPolicy.QueryParameter"},
    {"filter_state", kRefused},
    {"terminal", kYes},
};
// envoy.config.route.v3.RouteAction.HashPolicy.Header
constexpr FieldRule kOfConfigRouteRouteActionHashPolicyHeader[] = {
    {"header_name", kYes},
    {"regex_rewrite", kRefused},
};
// envoy.config.route.v3.RouteAction.HashPolicy.Cookie
constexpr FieldRule kOfConfigRouteRouteActionHashPolicyCookie[] = {
    {"name", kYes},
    {"ttl", kIgnored, "no cookie is set: see `sticky`"},
    {"path", kIgnored},
    {"attributes", kIgnored},
};
// envoy.config.route.v3.RouteAction.HashPolicy.ConnectionProperties
constexpr FieldRule kOfConfigRouteRouteActionHashPolicyConnectionProperties[] = {
    {"source_ip", kYes},
};
// envoy.config.route.v3.RouteAction.HashPolicy.QueryParameter
constexpr FieldRule kOfConfigRouteRouteActionHashPolicyQueryParameter[] = {
    {"name", kYes},
};
// envoy.config.route.v3.WeightedCluster
constexpr FieldRule kOfConfigRouteWeightedCluster[] = {
    {"clusters", kYes, "", "envoy.config.route.v3.WeightedCluster.ClusterWeight"},
    {"total_weight", kYes},
    {"runtime_key_prefix", kIgnored},
    {"header_name", kRefused},
    {"use_hash_policy", kRefused},
};
// envoy.config.route.v3.WeightedCluster.ClusterWeight
constexpr FieldRule kOfConfigRouteWeightedClusterClusterWeight[] = {
    {"name", kYes},
    {"weight", kYes},
    {"cluster_header", kRefused},
    {"metadata_match", kRefused, "endpoints have no subsets"},
    {"request_headers_to_add", kYes, "after those of the route", "envoy.config.core.v3.HeaderValueOption"},
    {"request_headers_to_remove", kYes},
    {"response_headers_to_add", kYes, "after those of the route", "envoy.config.core.v3.HeaderValueOption"},
    {"response_headers_to_remove", kYes},
    {"typed_per_filter_config", kRefused},
    {"host_rewrite_literal", kRefused},
};
// envoy.config.route.v3.RetryPolicy
constexpr FieldRule kOfConfigRouteRetryPolicy[] = {
    {"retry_on", kYes, "`retry.on`; methods that are not idempotent are retried only where nothing was sent"},
    {"num_retries", kYes, "`retry.attempts`, up to 10"},
    {"per_try_timeout", kYes, "`retry.try_timeout`"},
    {"per_try_idle_timeout", kIgnored},
    {"retry_priority", kIgnored},
    {"retry_host_predicate", kYes, "another endpoint is tried, in any case"},
    {"retry_options_predicates", kRefused},
    {"host_selection_retry_max_attempts", kYes},
    {"retriable_status_codes", kYes, "`retry.retriable_status_codes`: 4xx and 5xx"},
    {"retry_back_off", kYes, "`retry.backoff`, `retry.max_backoff`", "envoy.config.route.v3.RetryPolicy.RetryBackOff"},
    {"rate_limited_retry_back_off", kIgnored},
    {"retriable_headers", kRefused},
    {"retriable_request_headers", kRefused},
};
// envoy.config.route.v3.RetryPolicy.RetryBackOff
constexpr FieldRule kOfConfigRouteRetryPolicyRetryBackOff[] = {
    {"base_interval", kYes},
    {"max_interval", kYes},
};
// envoy.config.route.v3.RedirectAction
constexpr FieldRule kOfConfigRouteRedirectAction[] = {
    {"https_redirect", kYes},
    {"scheme_redirect", kYes},
    {"host_redirect", kYes},
    {"port_redirect", kYes},
    {"path_redirect", kYes},
    {"prefix_rewrite", kYes},
    {"regex_rewrite", kYes, "", "envoy.type.matcher.v3.RegexMatchAndSubstitute"},
    {"response_code", kYes},
    {"strip_query", kYes},
};
// envoy.config.route.v3.DirectResponseAction
constexpr FieldRule kOfConfigRouteDirectResponseAction[] = {
    {"status", kYes, "200 to 599"},
    {"body", kYes, "inline_string", "envoy.config.core.v3.DataSource"},
    {"body_format", kRefused},
};
// envoy.config.route.v3.RateLimit
constexpr FieldRule kOfConfigRouteRateLimit[] = {
    {"stage", kRefused}, {"disable_key", kRefused}, {"actions", kYes, "", "envoy.config.route.v3.RateLimit.Action"},
    {"limit", kRefused}, {"hits_addend", kRefused}, {"apply_on_stream_done", kRefused},
};
// envoy.config.route.v3.RateLimit.Action
constexpr FieldRule kOfConfigRouteRateLimitAction[] = {
    {"remote_address", kYes, "`source`"},
    {"generic_key", kYes, "`value`", "envoy.config.route.v3.RateLimit.Action.GenericKey"},
    {"request_headers", kYes, "`header`", "envoy.config.route.v3.RateLimit.Action.RequestHeaders"},
    {"destination_cluster", kRefused},
    {"source_cluster", kRefused},
    {"header_value_match", kRefused},
    {"metadata", kRefused},
    {"dynamic_metadata", kRefused},
    {"extension", kRefused},
    {"masked_remote_address", kRefused},
    {"query_parameter_value_match", kRefused},
    {"query_parameters", kRefused},
};
// envoy.config.route.v3.RateLimit.Action.GenericKey
constexpr FieldRule kOfConfigRouteRateLimitActionGenericKey[] = {
    {"descriptor_value", kYes},
    {"descriptor_key", kYes},
    {"default_value", kRefused},
};
// envoy.config.route.v3.RateLimit.Action.RequestHeaders
constexpr FieldRule kOfConfigRouteRateLimitActionRequestHeaders[] = {
    {"header_name", kYes},
    {"descriptor_key", kYes},
    {"skip_if_absent", kRefused},
};

}  // namespace

std::span<const MessageRule> route_messages() {
  static const MessageRule messages[] = {
      {"envoy.config.route.v3.RouteConfiguration", kOfConfigRouteRouteConfiguration},
      {"envoy.config.route.v3.VirtualHost", kOfConfigRouteVirtualHost},
      {"envoy.config.route.v3.Route", kOfConfigRouteRoute},
      {"envoy.config.route.v3.RouteMatch", kOfConfigRouteRouteMatch},
      {"envoy.config.route.v3.HeaderMatcher", kOfConfigRouteHeaderMatcher},
      {"envoy.config.route.v3.QueryParameterMatcher", kOfConfigRouteQueryParameterMatcher},
      {"envoy.config.route.v3.RouteAction", kOfConfigRouteRouteAction},
      {"envoy.config.route.v3.RouteAction.UpgradeConfig", kOfConfigRouteRouteActionUpgradeConfig},
      {"envoy.config.route.v3.RouteAction.MaxStreamDuration", kOfConfigRouteRouteActionMaxStreamDuration},
      {"envoy.config.route.v3.RouteAction.RequestMirrorPolicy", kOfConfigRouteRouteActionRequestMirrorPolicy},
      {"envoy.config.route.v3.RouteAction.HashPolicy", kOfConfigRouteRouteActionHashPolicy},
      {"envoy.config.route.v3.RouteAction.HashPolicy.Header", kOfConfigRouteRouteActionHashPolicyHeader},
      {"envoy.config.route.v3.RouteAction.HashPolicy.Cookie", kOfConfigRouteRouteActionHashPolicyCookie},
      {"envoy.config.route.v3.RouteAction.HashPolicy.ConnectionProperties",
       kOfConfigRouteRouteActionHashPolicyConnectionProperties},
      {"envoy.config.route.v3.RouteAction.HashPolicy.QueryParameter",
       kOfConfigRouteRouteActionHashPolicyQueryParameter},
      {"envoy.config.route.v3.WeightedCluster", kOfConfigRouteWeightedCluster},
      {"envoy.config.route.v3.WeightedCluster.ClusterWeight", kOfConfigRouteWeightedClusterClusterWeight},
      {"envoy.config.route.v3.RetryPolicy", kOfConfigRouteRetryPolicy},
      {"envoy.config.route.v3.RetryPolicy.RetryBackOff", kOfConfigRouteRetryPolicyRetryBackOff},
      {"envoy.config.route.v3.RedirectAction", kOfConfigRouteRedirectAction},
      {"envoy.config.route.v3.DirectResponseAction", kOfConfigRouteDirectResponseAction},
      {"envoy.config.route.v3.RateLimit", kOfConfigRouteRateLimit},
      {"envoy.config.route.v3.RateLimit.Action", kOfConfigRouteRateLimitAction},
      {"envoy.config.route.v3.RateLimit.Action.GenericKey", kOfConfigRouteRateLimitActionGenericKey},
      {"envoy.config.route.v3.RateLimit.Action.RequestHeaders", kOfConfigRouteRateLimitActionRequestHeaders},
  };
  return messages;
}

}  // namespace sluice::envoy
