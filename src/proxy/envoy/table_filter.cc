#include "proxy/envoy/field_table.h"

namespace sluice::envoy {
namespace {

using enum Support;

// envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
constexpr FieldRule kOfExtensionsFiltersNetworkTcpproxyTcpProxy[] = {
    {"stat_prefix", kYes},
    {"cluster", kYes, "`tcp.forward`"},
    {"weighted_clusters", kRefused, "a `tcp` listener forwards to one upstream"},
    {"idle_timeout", kYes, "`tcp.idle_timeout`"},
    {"max_connect_attempts", kYes, "`connect_attempts` of the upstream"},
    {"access_log", kYes, "", "envoy.config.accesslog.v3.AccessLog"},
    {"max_downstream_connection_duration", kYes, "`tcp.max_duration`"},
    {"max_downstream_connection_duration_jitter_percentage", kIgnored},
    {"hash_policy", kYes, "the source address"},
    {"tunneling_config", kRefused},
    {"metadata_match", kRefused},
    {"on_demand", kRefused},
    {"access_log_flush_interval", kIgnored},
    {"flush_access_log_on_connected", kIgnored},
    {"access_log_options", kIgnored},
    {"backoff_options", kIgnored},
    {"downstream_idle_timeout", kIgnored},
    {"upstream_idle_timeout", kIgnored},
    {"proxy_protocol_tlvs", kRefused},
    {"upstream_connect_mode", kRefused},
    {"max_early_data_bytes", kRefused},
    {"proxy_protocol_tlv_merge_policy", kRefused},
};
// envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit
constexpr FieldRule kOfExtensionsFiltersNetworkConnectionlimitConnectionLimit[] = {
    {"stat_prefix", kYes},
    {"max_connections", kYes, "`listeners[].max_connections`"},
    {"delay", kIgnored, "connections over the limit wait in the backlog"},
    {"runtime_enabled", kIgnored},
};
// envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
constexpr FieldRule kOfExtensionsFiltersNetworkHttpconnectionmanagerHttpConnectionManager[] = {
    {"codec_type", kYes, "AUTO, HTTP1, HTTP2; without TLS clients may use both"},
    {"stat_prefix", kYes},
    {"rds", kYes, "the route configuration has to be in the input",
     "envoy.extensions.filters.network.http_connection_manager.v3.Rds"},
    {"route_config", kYes, "", "envoy.config.route.v3.RouteConfiguration"},
    {"scoped_routes", kRefused},
    {"http_filters", kYes, "see Filters", "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter"},
    {"add_user_agent", kRefused},
    {"tracing", kIgnored, "see `tracing` in docs/guides/http.md"},
    {"common_http_protocol_options", kYes, "", "envoy.config.core.v3.HttpProtocolOptions"},
    {"http_protocol_options", kYes, "", "envoy.config.core.v3.Http1ProtocolOptions"},
    {"http2_protocol_options", kYes, "", "envoy.config.core.v3.Http2ProtocolOptions"},
    {"http3_protocol_options", kRefused, "HTTP/3 is not spoken"},
    {"server_name", kYes, "field `server` of responses; without it that of the upstream stays"},
    {"server_header_transformation", kYes, "PASS_THROUGH leaves `server` alone"},
    {"scheme_header_transformation", kRefused},
    {"max_request_headers_kb", kYes, "`max_head`, up to 64KiB"},
    {"stream_idle_timeout", kYes, "`stream_idle_timeout`, and `tunnel_timeout` where there are websockets"},
    {"request_timeout", kYes, "`request_timeout`, which ends with the response"},
    {"request_headers_timeout", kYes, "`header_timeout`"},
    {"drain_timeout", kIgnored, "see `shutdown_timeout`"},
    {"delayed_close_timeout", kIgnored},
    {"stream_flush_timeout", kIgnored},
    {"access_log", kYes, "", "envoy.config.accesslog.v3.AccessLog"},
    {"access_log_flush_interval", kIgnored},
    {"flush_access_log_on_new_request", kIgnored},
    {"access_log_options", kIgnored},
    {"use_remote_address", kYes, "`forwarded_for`, `trusted_hops`"},
    {"xff_num_trusted_hops", kYes, "`trusted_hops`"},
    {"skip_xff_append", kYes, "`forwarded_for: off`"},
    {"original_ip_detection_extensions", kRefused},
    {"early_header_mutation_extensions", kRefused},
    {"internal_address_config", kIgnored, "there are no internal requests"},
    {"via", kYes, "`via`"},
    {"generate_request_id", kYes, "`request_id`"},
    {"preserve_external_request_id", kYes, "`request_id.accept`"},
    {"always_set_request_id_in_response", kYes, "`request_id.respond`"},
    {"request_id_extension", kIgnored, "ids are 128 random bits"},
    {"forward_client_cert_details", kYes, "SANITIZE; see `%{peer}` for others"},
    {"set_current_client_cert_details", kIgnored, "see `%{peer}`"},
    {"proxy_100_continue", kIgnored},
    {"represent_ipv4_remote_address_as_ipv4_mapped_ipv6", kIgnored},
    {"upgrade_configs", kYes, "websocket, CONNECT",
     "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.UpgradeConfig"},
    {"normalize_path", kYes, "always so"},
    {"merge_slashes", kYes, "`paths.merge_slashes`"},
    {"path_with_escaped_slashes_action", kYes, "`paths.escaped_slashes`; there is no redirect"},
    {"path_normalization_options", kRefused},
    {"strip_matching_host_port", kYes, "hosts are compared without the port; the upstream gets it"},
    {"strip_any_host_port", kYes, "hosts are compared without the port; the upstream gets it"},
    {"strip_trailing_host_dot", kIgnored},
    {"local_reply_config", kIgnored, "see `errors` in docs/guides/http.md"},
    {"stream_error_on_invalid_http_message", kIgnored},
    {"proxy_status_config", kRefused},
    {"typed_header_validation_config", kIgnored},
    {"append_x_forwarded_port", kRefused},
    {"append_local_overload", kIgnored},
    {"add_proxy_protocol_connection_state", kIgnored},
    {"http1_safe_max_connection_duration", kIgnored},
};
// envoy.extensions.filters.network.http_connection_manager.v3.Rds
constexpr FieldRule kOfExtensionsFiltersNetworkHttpconnectionmanagerRds[] = {
    {"route_config_name", kYes},
    {"config_source", kYes, "the route configuration has to be in the input"},
};
// envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.UpgradeConfig
constexpr FieldRule kOfExtensionsFiltersNetworkHttpconnectionmanagerHttpConnectionManagerUpgradeConfig[] = {
    {"upgrade_type", kYes, "websocket: `websocket: true`; CONNECT: `allow_connect: true`"},
    {"enabled", kYes},
    {"filters", kRefused},
};
// envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter
constexpr FieldRule kOfExtensionsFiltersNetworkHttpconnectionmanagerHttpFilter[] = {
    {"name", kYes},
    {"typed_config", kYes},
    {"is_optional", kYes, "a filter that is unknown is ignored then"},
    {"disabled", kYes},
    {"config_discovery", kYes, "the configuration comes by extension discovery (ECDS), or is in the input",
     "envoy.config.core.v3.ExtensionConfigSource"},
};
// envoy.config.core.v3.ExtensionConfigSource
constexpr FieldRule kOfConfigCoreExtensionConfigSource[] = {
    {"config_source", kYes, "the stream of the other resources"},
    {"default_config", kYes},
    {"apply_default_config_without_warming", kYes,
     "without it, the listener waits for the configuration for as long as it takes"},
    {"type_urls", kYes},
};
// envoy.extensions.filters.http.router.v3.Router
constexpr FieldRule kOfExtensionsFiltersHttpRouterRouter[] = {
    {"dynamic_stats", kIgnored},
    {"start_child_span", kIgnored},
    {"upstream_log", kIgnored},
    {"upstream_log_options", kIgnored},
    {"suppress_envoy_headers", kYes, "never sent"},
    {"strict_check_headers", kYes},
    {"respect_expected_rq_timeout", kIgnored},
    {"suppress_grpc_request_failure_code_stats", kYes},
    {"upstream_http_filters", kRefused},
    {"reject_connect_request_early_data", kIgnored},
};
// envoy.extensions.filters.http.cors.v3.CorsPolicy
constexpr FieldRule kOfExtensionsFiltersHttpCorsCorsPolicy[] = {
    {"allow_origin_string_match", kYes, "exact, `safe_regex`; or everything: `*`",
     "envoy.type.matcher.v3.StringMatcher"},
    {"allow_methods", kYes},
    {"allow_headers", kYes},
    {"expose_headers", kYes},
    {"max_age", kYes},
    {"allow_credentials", kYes},
    {"filter_enabled", kYes, "100 %, or 0 %", "envoy.config.core.v3.RuntimeFractionalPercent"},
    {"shadow_enabled", kIgnored},
    {"allow_private_network_access", kIgnored},
    {"forward_not_matching_preflights", kIgnored},
};
// envoy.extensions.filters.http.grpc_stats.v3.FilterConfig
constexpr FieldRule kOfExtensionsFiltersHttpGrpcstatsFilterConfig[] = {
    {"emit_filter_state", kIgnored},
    {"individual_method_stats_allowlist", kIgnored},
    {"stats_for_all_methods", kIgnored},
    {"enable_upstream_stats", kIgnored},
    {"replace_dots_in_grpc_service_name", kIgnored},
};
// envoy.extensions.filters.http.buffer.v3.Buffer
constexpr FieldRule kOfExtensionsFiltersHttpBufferBuffer[] = {
    {"max_request_bytes", kYes, "`max_body`, and `buffer.requests` of the routes"},
};
// envoy.extensions.filters.http.health_check.v3.HealthCheck
constexpr FieldRule kOfExtensionsFiltersHttpHealthcheckHealthCheck[] = {
    {"pass_through_mode", kYes, "`true` is refused"},
    {"headers", kYes, "one exact `:path`: a route with `readiness`", "envoy.config.route.v3.HeaderMatcher"},
    {"cache_time", kIgnored},
    {"cluster_min_healthy_percentages", kRefused},
};
// envoy.extensions.filters.http.compressor.v3.Compressor
constexpr FieldRule kOfExtensionsFiltersHttpCompressorCompressor[] = {
    {"compressor_library", kYes, "gzip, brotli, zstd", "envoy.config.core.v3.TypedExtensionConfig"},
    {"response_direction_config", kYes, "",
     "envoy.extensions.filters.http.compressor.v3.Compressor.ResponseDirectionConfig"},
    {"request_direction_config", kIgnored, "requests are not compressed"},
    {"content_length", kYes, "`compression.min_size`"},
    {"content_type", kYes, "`compression.types`"},
    {"disable_on_etag_header", kIgnored},
    {"remove_accept_encoding_header", kIgnored},
    {"runtime_enabled", kIgnored},
    {"choose_first", kIgnored},
};
// envoy.extensions.filters.http.compressor.v3.Compressor.ResponseDirectionConfig
constexpr FieldRule kOfExtensionsFiltersHttpCompressorCompressorResponseDirectionConfig[] = {
    {"common_config", kYes, "", "envoy.extensions.filters.http.compressor.v3.Compressor.CommonDirectionConfig"},
    {"disable_on_etag_header", kIgnored},
    {"remove_accept_encoding_header", kIgnored},
    {"uncompressible_response_codes", kIgnored},
    {"status_header_enabled", kIgnored},
};
// envoy.extensions.filters.http.compressor.v3.Compressor.CommonDirectionConfig
constexpr FieldRule kOfExtensionsFiltersHttpCompressorCompressorCommonDirectionConfig[] = {
    {"enabled", kIgnored},
    {"min_content_length", kYes, "`compression.min_size`"},
    {"content_type", kYes, "`compression.types`"},
};
// envoy.extensions.compression.gzip.compressor.v3.Gzip
constexpr FieldRule kOfExtensionsCompressionGzipCompressorGzip[] = {
    {"memory_level", kIgnored},         {"compression_level", kIgnored, "see `compression.level`"},
    {"compression_strategy", kIgnored}, {"window_bits", kIgnored},
    {"chunk_size", kIgnored},
};
// envoy.extensions.compression.brotli.compressor.v3.Brotli
constexpr FieldRule kOfExtensionsCompressionBrotliCompressorBrotli[] = {
    {"quality", kIgnored, "see `compression.level`"},
    {"encoder_mode", kIgnored},
    {"window_bits", kIgnored},
    {"input_block_bits", kIgnored},
    {"chunk_size", kIgnored},
    {"disable_literal_context_modeling", kIgnored},
};
// envoy.extensions.compression.zstd.compressor.v3.Zstd
constexpr FieldRule kOfExtensionsCompressionZstdCompressorZstd[] = {
    {"compression_level", kIgnored, "see `compression.level`"},
    {"enable_checksum", kIgnored},
    {"strategy", kIgnored},
    {"dictionary", kRefused},
    {"chunk_size", kIgnored},
};
// envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
constexpr FieldRule kOfExtensionsFiltersHttpExtauthzExtAuthz[] = {
    {"grpc_service", kYes, "`ext_authz` of the routes", "envoy.config.core.v3.GrpcService"},
    {"http_service", kRefused, "it differs from `forward_auth`: see docs/guides/access.md"},
    {"transport_api_version", kYes, "V3"},
    {"failure_mode_allow", kYes, "`on_failure`"},
    {"failure_mode_allow_header_add", kIgnored},
    {"stat_prefix", kYes},
    {"status_on_error", kIgnored, "it is 503"},
    {"with_request_body", kRefused, "bodies are not sent to authorizers"},
    {"clear_route_cache", kRefused},
    {"include_peer_certificate", kIgnored, "certificates are not sent"},
    {"include_tls_session", kYes},
    {"filter_enabled", kRefused},
    {"filter_enabled_metadata", kRefused},
    {"deny_at_disable", kRefused},
    {"metadata_context_namespaces", kIgnored},
    {"typed_metadata_context_namespaces", kIgnored},
    {"route_metadata_context_namespaces", kIgnored},
    {"bootstrap_metadata_labels_key", kIgnored},
    {"allowed_headers", kIgnored, "all fields are sent"},
    {"disallowed_headers", kRefused},
    {"encode_raw_headers", kIgnored},
    {"decoder_header_mutation_rules", kRefused},
    {"enable_dynamic_metadata_ingestion", kIgnored},
    {"validate_mutations", kYes, "always so"},
    {"emit_filter_state_stats", kIgnored},
    {"filter_metadata", kIgnored},
    {"charge_cluster_response_stats", kIgnored},
};
// envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute
constexpr FieldRule kOfExtensionsFiltersHttpExtauthzExtAuthzPerRoute[] = {
    {"disabled", kYes},
    {"check_settings", kRefused},
};
// envoy.extensions.filters.http.ratelimit.v3.RateLimit
constexpr FieldRule kOfExtensionsFiltersHttpRatelimitRateLimit[] = {
    {"domain", kYes, "`global_rate_limits.domain`"},
    {"stage", kRefused},
    {"request_type", kRefused},
    {"timeout", kYes, "`global_rate_limits.timeout`"},
    {"failure_mode_deny", kYes, "`global_rate_limits.on_failure`"},
    {"rate_limited_as_resource_exhausted", kYes, "always so"},
    {"rate_limit_service", kYes, "", "envoy.config.ratelimit.v3.RateLimitServiceConfig"},
    {"enable_x_ratelimit_headers", kYes, "fields of the IETF draft are always sent"},
    {"disable_x_envoy_ratelimited_header", kYes, "never sent"},
    {"rate_limited_status", kIgnored, "it is 429"},
    {"status_on_error", kIgnored, "it is 503"},
    {"response_headers_to_add", kRefused},
    {"stat_prefix", kYes},
    {"filter_enabled", kRefused},
    {"filter_enforced", kRefused},
    {"failure_mode_deny_percent", kRefused},
    {"rate_limits", kRefused},
};
// envoy.config.ratelimit.v3.RateLimitServiceConfig
constexpr FieldRule kOfConfigRatelimitRateLimitServiceConfig[] = {
    {"grpc_service", kYes, "", "envoy.config.core.v3.GrpcService"},
    {"transport_api_version", kYes, "V3"},
};
// envoy.config.core.v3.GrpcService
constexpr FieldRule kOfConfigCoreGrpcService[] = {
    {"envoy_grpc", kYes, "", "envoy.config.core.v3.GrpcService.EnvoyGrpc"},
    {"google_grpc", kRefused, "name a cluster in envoy_grpc"},
    {"timeout", kYes},
    {"initial_metadata", kRefused},
    {"retry_policy", kIgnored},
};
// envoy.config.core.v3.GrpcService.EnvoyGrpc
constexpr FieldRule kOfConfigCoreGrpcServiceEnvoyGrpc[] = {
    {"cluster_name", kYes},       {"authority", kIgnored, "it is the cluster's name"},
    {"retry_policy", kIgnored},   {"max_receive_message_length", kIgnored},
    {"skip_envoy_headers", kYes},
};
// envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
constexpr FieldRule kOfExtensionsFiltersHttpLocalratelimitLocalRateLimit[] = {
    {"stat_prefix", kYes},
    {"token_bucket", kYes, "`rate_limits` with `key: { route: true }`", "envoy.type.v3.TokenBucket"},
    {"status", kYes, "`rate_limits[].status`", "envoy.type.v3.HttpStatus"},
    {"filter_enabled", kYes, "100 %, or 0 %", "envoy.config.core.v3.RuntimeFractionalPercent"},
    {"filter_enforced", kYes, "100 %, or 0 %: `dry_run`", "envoy.config.core.v3.RuntimeFractionalPercent"},
    {"request_headers_to_add_when_not_enforced", kRefused},
    {"response_headers_to_add", kRefused},
    {"descriptors", kRefused},
    {"stage", kRefused},
    {"local_rate_limit_per_downstream_connection", kRefused},
    {"local_cluster_rate_limit", kRefused},
    {"enable_x_ratelimit_headers", kYes, "fields of the IETF draft are always sent"},
    {"vh_rate_limits", kRefused},
    {"always_consume_default_token_bucket", kYes},
    {"rate_limited_as_resource_exhausted", kYes, "always so"},
    {"rate_limits", kRefused},
    {"max_dynamic_descriptors", kYes},
};
// envoy.type.v3.TokenBucket
constexpr FieldRule kOfTypeTokenBucket[] = {
    {"max_tokens", kYes, "`rate_limits[].burst`"},
    {"tokens_per_fill", kYes, "`rate_limits[].rate`"},
    {"fill_interval", kYes, "`rate_limits[].rate`"},
};
// envoy.extensions.filters.http.rbac.v3.RBAC
constexpr FieldRule kOfExtensionsFiltersHttpRbacRBAC[] = {
    {"rules", kYes, "", "envoy.config.rbac.v3.RBAC"},
    {"rules_stat_prefix", kYes},
    {"matcher", kRefused},
    {"shadow_rules", kIgnored, "there is no trial"},
    {"shadow_matcher", kIgnored, "there is no trial"},
    {"shadow_rules_stat_prefix", kYes},
    {"track_per_rule_stats", kYes},
};
// envoy.config.rbac.v3.RBAC
constexpr FieldRule kOfConfigRbacRBAC[] = {
    {"action", kYes, "ALLOW, DENY"},
    {"policies", kYes, "see docs/guides/from-envoy.md"},
    {"audit_logging_options", kIgnored},
};
// envoy.config.rbac.v3.Policy
constexpr FieldRule kOfConfigRbacPolicy[] = {
    {"permissions", kYes, "any, url_path", "envoy.config.rbac.v3.Permission"},
    {"principals", kYes, "any, remote_ip, source_ip, direct_remote_ip, authenticated",
     "envoy.config.rbac.v3.Principal"},
    {"condition", kRefused},
    {"checked_condition", kRefused},
    {"cel_config", kRefused},
};
// envoy.config.rbac.v3.Permission
constexpr FieldRule kOfConfigRbacPermission[] = {
    {"any", kYes},
    {"url_path", kYes, "exact or prefix", "envoy.type.matcher.v3.PathMatcher"},
    {"and_rules", kRefused},
    {"or_rules", kRefused},
    {"header", kRefused},
    {"destination_ip", kRefused},
    {"destination_port", kRefused},
    {"destination_port_range", kRefused},
    {"metadata", kRefused},
    {"not_rule", kRefused},
    {"requested_server_name", kRefused},
    {"matcher", kRefused},
    {"uri_template", kRefused},
    {"sourced_metadata", kRefused},
};
// envoy.config.rbac.v3.Principal
constexpr FieldRule kOfConfigRbacPrincipal[] = {
    {"any", kYes},
    {"remote_ip", kYes, "", "envoy.config.core.v3.CidrRange"},
    {"source_ip", kYes, "the client's address", "envoy.config.core.v3.CidrRange"},
    {"direct_remote_ip", kYes, "the client's address", "envoy.config.core.v3.CidrRange"},
    {"authenticated", kYes, "one exact name, in rules that allow, or that deny with `not_id`",
     "envoy.config.rbac.v3.Principal.Authenticated"},
    {"not_id", kYes, "of `authenticated`, in rules that deny", "envoy.config.rbac.v3.Principal"},
    {"and_ids", kRefused},
    {"or_ids", kRefused},
    {"header", kRefused},
    {"url_path", kRefused},
    {"metadata", kRefused},
    {"filter_state", kRefused},
    {"sourced_metadata", kRefused},
    {"custom", kRefused},
};
// envoy.config.rbac.v3.Principal.Authenticated
constexpr FieldRule kOfConfigRbacPrincipalAuthenticated[] = {
    {"principal_name", kYes, "exact", "envoy.type.matcher.v3.StringMatcher"},
};
// envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
constexpr FieldRule kOfExtensionsFiltersHttpJwtauthnJwtAuthentication[] = {
    {"providers", kYes},
    {"rules", kYes, "", "envoy.extensions.filters.http.jwt_authn.v3.RequirementRule"},
    {"requirement_map", kRefused, "write the requirement in `requires`"},
    {"filter_state_rules", kRefused},
    {"bypass_cors_preflight", kYes, "always so"},
    {"strip_failure_response", kIgnored},
    {"stat_prefix", kYes},
};
// envoy.extensions.filters.http.jwt_authn.v3.JwtProvider
constexpr FieldRule kOfExtensionsFiltersHttpJwtauthnJwtProvider[] = {
    {"issuer", kYes, "`auth.jwt.issuer`"},
    {"audiences", kYes, "`auth.jwt.audience`"},
    {"local_jwks", kYes, "file: `auth.jwt.jwks_file`", "envoy.config.core.v3.DataSource"},
    {"remote_jwks", kRefused, "keys are not fetched: write them to a file, and name it in local_jwks"},
    {"forward", kYes, "`auth.forward`"},
    {"from_headers", kYes, "one: `auth.jwt.header`", "envoy.extensions.filters.http.jwt_authn.v3.JwtHeader"},
    {"from_params", kRefused},
    {"from_cookies", kYes, "one: `auth.jwt.cookie`"},
    {"forward_payload_header", kRefused},
    {"pad_forward_payload_header", kRefused},
    {"payload_in_metadata", kIgnored},
    {"header_in_metadata", kIgnored},
    {"failed_status_in_metadata", kIgnored},
    {"clock_skew_seconds", kYes, "`auth.jwt.leeway`"},
    {"jwt_cache_config", kYes, "tokens are always remembered"},
    {"claim_to_headers", kYes, "`auth.jwt.claims`", "envoy.extensions.filters.http.jwt_authn.v3.JwtClaimToHeader"},
    {"subjects", kRefused},
    {"require_expiration", kYes, "always so"},
    {"max_lifetime", kRefused},
    {"clear_route_cache", kRefused},
    {"normalize_payload_in_metadata", kIgnored},
};
// envoy.extensions.filters.http.jwt_authn.v3.JwtHeader
constexpr FieldRule kOfExtensionsFiltersHttpJwtauthnJwtHeader[] = {
    {"name", kYes},
    {"value_prefix", kYes, "a word and a blank"},
};
// envoy.extensions.filters.http.jwt_authn.v3.JwtClaimToHeader
constexpr FieldRule kOfExtensionsFiltersHttpJwtauthnJwtClaimToHeader[] = {
    {"header_name", kYes},
    {"claim_name", kYes},
};
// envoy.extensions.filters.http.jwt_authn.v3.RequirementRule
constexpr FieldRule kOfExtensionsFiltersHttpJwtauthnRequirementRule[] = {
    {"match", kYes, "prefix, path_separated_prefix or path", "envoy.config.route.v3.RouteMatch"},
    {"requires", kYes, "", "envoy.extensions.filters.http.jwt_authn.v3.JwtRequirement"},
    {"requirement_name", kYes},
};
// envoy.extensions.filters.http.jwt_authn.v3.JwtRequirement
constexpr FieldRule kOfExtensionsFiltersHttpJwtauthnJwtRequirement[] = {
    {"provider_name", kYes},    {"provider_and_audiences", kRefused},  {"requires_any", kRefused},
    {"requires_all", kRefused}, {"allow_missing_or_failed", kRefused}, {"allow_missing", kRefused},
};
// envoy.extensions.filters.http.basic_auth.v3.BasicAuth
constexpr FieldRule kOfExtensionsFiltersHttpBasicauthBasicAuth[] = {
    {"users", kYes, "file: `auth.basic.users_file`", "envoy.config.core.v3.DataSource"},
    {"forward_username_header", kRefused},
    {"authentication_header", kRefused},
    {"emit_dynamic_metadata", kIgnored},
};
// envoy.config.accesslog.v3.AccessLog
constexpr FieldRule kOfConfigAccesslogAccessLog[] = {
    {"name", kYes},
    {"filter", kRefused, "see `access_log.when`"},
    {"typed_config", kYes, "FileAccessLog, StdoutAccessLog, StderrAccessLog"},
};
// envoy.extensions.access_loggers.file.v3.FileAccessLog
constexpr FieldRule kOfExtensionsAccessloggersFileFileAccessLog[] = {
    {"path", kYes, "`access_log.file`"},
    {"format", kYes, "operators become variables"},
    {"log_format", kYes, "", "envoy.config.core.v3.SubstitutionFormatString"},
    {"json_format", kYes, "`format: json`, with the keys of Sluice"},
    {"typed_json_format", kYes, "`format: json`, with the keys of Sluice"},
};
// envoy.extensions.access_loggers.stream.v3.StdoutAccessLog
constexpr FieldRule kOfExtensionsAccessloggersStreamStdoutAccessLog[] = {
    {"log_format", kYes, "", "envoy.config.core.v3.SubstitutionFormatString"},
};
// envoy.extensions.access_loggers.stream.v3.StderrAccessLog
constexpr FieldRule kOfExtensionsAccessloggersStreamStderrAccessLog[] = {
    {"log_format", kYes, "", "envoy.config.core.v3.SubstitutionFormatString"},
};
// envoy.config.core.v3.SubstitutionFormatString
constexpr FieldRule kOfConfigCoreSubstitutionFormatString[] = {
    {"text_format", kYes, "operators become variables"},
    {"text_format_source", kYes, "operators become variables", "envoy.config.core.v3.DataSource"},
    {"json_format", kYes, "`format: json`, with the keys of Sluice"},
    {"omit_empty_values", kYes, "an unknown value is `-` or `null`"},
    {"content_type", kIgnored},
    {"formatters", kIgnored},
    {"json_format_options", kYes},
};

}  // namespace

std::span<const MessageRule> filter_messages() {
  static const MessageRule messages[] = {
      {"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", kOfExtensionsFiltersNetworkTcpproxyTcpProxy},
      {"envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit",
       kOfExtensionsFiltersNetworkConnectionlimitConnectionLimit},
      {"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
       kOfExtensionsFiltersNetworkHttpconnectionmanagerHttpConnectionManager},
      {"envoy.extensions.filters.network.http_connection_manager.v3.Rds",
       kOfExtensionsFiltersNetworkHttpconnectionmanagerRds},
      {"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.UpgradeConfig",
       kOfExtensionsFiltersNetworkHttpconnectionmanagerHttpConnectionManagerUpgradeConfig},
      {"envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter",
       kOfExtensionsFiltersNetworkHttpconnectionmanagerHttpFilter},
      {"envoy.config.core.v3.ExtensionConfigSource", kOfConfigCoreExtensionConfigSource},
      {"envoy.extensions.filters.http.router.v3.Router", kOfExtensionsFiltersHttpRouterRouter},
      {"envoy.extensions.filters.http.cors.v3.Cors", {}},
      {"envoy.extensions.filters.http.cors.v3.CorsPolicy", kOfExtensionsFiltersHttpCorsCorsPolicy},
      {"envoy.extensions.filters.http.grpc_stats.v3.FilterConfig", kOfExtensionsFiltersHttpGrpcstatsFilterConfig},
      {"envoy.extensions.filters.http.grpc_web.v3.GrpcWeb", {}},
      {"envoy.extensions.filters.http.buffer.v3.Buffer", kOfExtensionsFiltersHttpBufferBuffer},
      {"envoy.extensions.filters.http.health_check.v3.HealthCheck", kOfExtensionsFiltersHttpHealthcheckHealthCheck},
      {"envoy.extensions.filters.http.compressor.v3.Compressor", kOfExtensionsFiltersHttpCompressorCompressor},
      {"envoy.extensions.filters.http.compressor.v3.Compressor.ResponseDirectionConfig",
       kOfExtensionsFiltersHttpCompressorCompressorResponseDirectionConfig},
      {"envoy.extensions.filters.http.compressor.v3.Compressor.CommonDirectionConfig",
       kOfExtensionsFiltersHttpCompressorCompressorCommonDirectionConfig},
      {"envoy.extensions.compression.gzip.compressor.v3.Gzip", kOfExtensionsCompressionGzipCompressorGzip},
      {"envoy.extensions.compression.brotli.compressor.v3.Brotli", kOfExtensionsCompressionBrotliCompressorBrotli},
      {"envoy.extensions.compression.zstd.compressor.v3.Zstd", kOfExtensionsCompressionZstdCompressorZstd},
      {"envoy.extensions.filters.http.ext_authz.v3.ExtAuthz", kOfExtensionsFiltersHttpExtauthzExtAuthz},
      {"envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute", kOfExtensionsFiltersHttpExtauthzExtAuthzPerRoute},
      {"envoy.extensions.filters.http.ratelimit.v3.RateLimit", kOfExtensionsFiltersHttpRatelimitRateLimit},
      {"envoy.config.ratelimit.v3.RateLimitServiceConfig", kOfConfigRatelimitRateLimitServiceConfig},
      {"envoy.config.core.v3.GrpcService", kOfConfigCoreGrpcService},
      {"envoy.config.core.v3.GrpcService.EnvoyGrpc", kOfConfigCoreGrpcServiceEnvoyGrpc},
      {"envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
       kOfExtensionsFiltersHttpLocalratelimitLocalRateLimit},
      {"envoy.type.v3.TokenBucket", kOfTypeTokenBucket},
      {"envoy.extensions.filters.http.rbac.v3.RBAC", kOfExtensionsFiltersHttpRbacRBAC},
      {"envoy.config.rbac.v3.RBAC", kOfConfigRbacRBAC},
      {"envoy.config.rbac.v3.Policy", kOfConfigRbacPolicy},
      {"envoy.config.rbac.v3.Permission", kOfConfigRbacPermission},
      {"envoy.config.rbac.v3.Principal", kOfConfigRbacPrincipal},
      {"envoy.config.rbac.v3.Principal.Authenticated", kOfConfigRbacPrincipalAuthenticated},
      {"envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
       kOfExtensionsFiltersHttpJwtauthnJwtAuthentication},
      {"envoy.extensions.filters.http.jwt_authn.v3.JwtProvider", kOfExtensionsFiltersHttpJwtauthnJwtProvider},
      {"envoy.extensions.filters.http.jwt_authn.v3.JwtHeader", kOfExtensionsFiltersHttpJwtauthnJwtHeader},
      {"envoy.extensions.filters.http.jwt_authn.v3.JwtClaimToHeader", kOfExtensionsFiltersHttpJwtauthnJwtClaimToHeader},
      {"envoy.extensions.filters.http.jwt_authn.v3.RequirementRule", kOfExtensionsFiltersHttpJwtauthnRequirementRule},
      {"envoy.extensions.filters.http.jwt_authn.v3.JwtRequirement", kOfExtensionsFiltersHttpJwtauthnJwtRequirement},
      {"envoy.extensions.filters.http.basic_auth.v3.BasicAuth", kOfExtensionsFiltersHttpBasicauthBasicAuth},
      {"envoy.config.accesslog.v3.AccessLog", kOfConfigAccesslogAccessLog},
      {"envoy.extensions.access_loggers.file.v3.FileAccessLog", kOfExtensionsAccessloggersFileFileAccessLog},
      {"envoy.extensions.access_loggers.stream.v3.StdoutAccessLog", kOfExtensionsAccessloggersStreamStdoutAccessLog},
      {"envoy.extensions.access_loggers.stream.v3.StderrAccessLog", kOfExtensionsAccessloggersStreamStderrAccessLog},
      {"envoy.config.core.v3.SubstitutionFormatString", kOfConfigCoreSubstitutionFormatString},
  };
  return messages;
}

}  // namespace sluice::envoy
