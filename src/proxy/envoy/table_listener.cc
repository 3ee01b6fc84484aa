#include "proxy/envoy/field_table.h"

namespace sluice::envoy {
namespace {

using enum Support;

// envoy.config.bootstrap.v3.Bootstrap
constexpr FieldRule kOfConfigBootstrapBootstrap[] = {
    {"static_resources", kYes, "", "envoy.config.bootstrap.v3.Bootstrap.StaticResources"},
    {"dynamic_resources", kRefused,
     "`sluice run --xds` follows a control plane; `convert` needs files that have its resources"},
    {"admin", kYes, "`admin.address`; pages differ: see docs/operating/admin.md", "envoy.config.bootstrap.v3.Admin"},
    {"overload_manager", kYes, "the monitor of connections is `limits.max_connections`",
     "envoy.config.overload.v3.OverloadManager"},
    {"node", kYes, "Sluice has no name of its own"},
    {"layered_runtime", kIgnored, "there are no runtime values"},
    {"cluster_manager", kIgnored, "there is no counterpart, and it changes nothing in what is forwarded"},
    {"stats_sinks", kIgnored, "metrics are on the admin listener"},
    {"stats_config", kIgnored, "metrics are on the admin listener"},
    {"stats_flush_interval", kIgnored, "metrics are on the admin listener"},
    {"tracing", kIgnored, "see `tracing` in docs/guides/http.md"},
    {"watchdogs", kIgnored},
    {"hds_config", kYes, "with `--xds`: see docs/guides/control-plane.md"},
    {"stats_server_version_override", kIgnored},
    {"use_tcp_for_dns_lookups", kIgnored},
    {"dns_resolution_config", kIgnored, "see `upstreams[].resolve.servers`"},
    {"typed_dns_resolver_config", kIgnored, "see `upstreams[].resolve.servers`"},
    {"default_regex_engine", kYes, "RE2"},
    {"application_log_config", kIgnored, "see `log`"},
    {"bootstrap_extensions", kRefused},
    {"default_config_source", kRefused, "resources of a control plane are not read"},
    {"enable_dispatcher_stats", kIgnored},
    {"header_prefix", kRefused},
    {"default_socket_interface", kRefused},
    {"inline_headers", kYes},
    {"fatal_actions", kIgnored},
    {"config_sources", kRefused},
    {"certificate_provider_instances", kRefused},
    {"grpc_async_client_manager_config", kIgnored},
    {"memory_allocator_manager", kIgnored},
    {"xds_delegate_extension", kRefused},
    {"xds_config_tracker_extension", kIgnored},
    {"listener_manager", kRefused},
    {"perf_tracing_file_path", kIgnored},
    {"deferred_stat_options", kIgnored},
};
// envoy.config.bootstrap.v3.Bootstrap.StaticResources
constexpr FieldRule kOfConfigBootstrapBootstrapStaticResources[] = {
    {"listeners", kYes, "", "envoy.config.listener.v3.Listener"},
    {"clusters", kYes, "", "envoy.config.cluster.v3.Cluster"},
    {"secrets", kYes, "", "envoy.extensions.transport_sockets.tls.v3.Secret"},
};
// envoy.config.bootstrap.v3.Admin
constexpr FieldRule kOfConfigBootstrapAdmin[] = {
    {"address", kYes, "only of this machine: 127.0.0.1, ::1 or a Unix socket", "envoy.config.core.v3.Address"},
    {"access_log", kIgnored, "requests of operators are in the run-time log"},
    {"access_log_path", kIgnored, "requests of operators are in the run-time log"},
    {"profile_path", kIgnored, "see `sluice admin profile`"},
    {"socket_options", kIgnored},
    {"ignore_global_conn_limit", kIgnored},
    {"allow_paths", kRefused},
};
// envoy.config.overload.v3.OverloadManager
constexpr FieldRule kOfConfigOverloadOverloadManager[] = {
    {"resource_monitors", kYes, "of connections only", "envoy.config.overload.v3.ResourceMonitor"},
    {"actions", kIgnored, "see docs/operating/overload.md"},
    {"refresh_interval", kIgnored},
    {"loadshed_points", kIgnored, "see docs/operating/overload.md"},
    {"buffer_factory_config", kIgnored},
};
// envoy.config.overload.v3.ResourceMonitor
constexpr FieldRule kOfConfigOverloadResourceMonitor[] = {
    {"name", kYes},
    {"typed_config", kYes, "DownstreamConnectionsConfig"},
};
// envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig
constexpr FieldRule kOfExtensionsResourcemonitorsDownstreamconnectionsDownstreamConnectionsConfig[] = {
    {"max_active_downstream_connections", kYes, "`limits.max_connections`"},
};
// envoy.config.listener.v3.Listener
constexpr FieldRule kOfConfigListenerListener[] = {
    {"name", kYes, "in logs and counters; characters that Sluice does not take become `-`"},
    {"address", kYes, "", "envoy.config.core.v3.Address"},
    {"additional_addresses", kYes, "", "envoy.config.listener.v3.AdditionalAddress"},
    {"stat_prefix", kYes, "counters have the name of the listener"},
    {"filter_chains", kYes, "one; or several by server name or ALPN: see docs/guides/from-envoy.md",
     "envoy.config.listener.v3.FilterChain"},
    {"default_filter_chain", kYes, "", "envoy.config.listener.v3.FilterChain"},
    {"listener_filters", kYes, "tls_inspector, http_inspector, proxy_protocol",
     "envoy.config.listener.v3.ListenerFilter"},
    {"listener_filters_timeout", kYes, "`tcp.inspect_timeout`, `proxy_protocol.timeout`"},
    {"continue_on_listener_filters_timeout", kIgnored},
    {"per_connection_buffer_limit_bytes", kYes, "`buffer_high`"},
    {"tcp_backlog_size", kYes, "`backlog`"},
    {"traffic_direction", kYes},
    {"metadata", kYes},
    {"drain_type", kIgnored, "connections are drained at each reload"},
    {"use_original_dst", kRefused, "connections are not redirected by the kernel"},
    {"transparent", kRefused},
    {"freebind", kIgnored},
    {"socket_options", kIgnored},
    {"tcp_fast_open_queue_length", kIgnored},
    {"connection_balance_config", kIgnored, "connections are spread over workers in any case"},
    {"enable_reuse_port", kYes, "always so"},
    {"reuse_port", kYes, "always so"},
    {"access_log", kIgnored, "see the access log of the filter"},
    {"udp_listener_config", kRefused, "only TCP is spoken"},
    {"api_listener", kRefused},
    {"bind_to_port", kYes, "`false` is refused"},
    {"enable_mptcp", kRefused},
    {"ignore_global_conn_limit", kIgnored},
    {"filter_chain_matcher", kRefused, "filter chains are chosen by filter_chain_match only"},
    {"internal_listener", kRefused},
    {"max_connections_to_accept_per_socket_event", kIgnored},
    {"bypass_overload_manager", kIgnored},
    {"deprecated_v1", kYes},
    {"fcds_config", kRefused},
};
// envoy.config.listener.v3.AdditionalAddress
constexpr FieldRule kOfConfigListenerAdditionalAddress[] = {
    {"address", kYes, "", "envoy.config.core.v3.Address"},
    {"socket_options", kIgnored},
    {"tcp_keepalive", kIgnored},
};
// envoy.config.listener.v3.ListenerFilter
constexpr FieldRule kOfConfigListenerListenerFilter[] = {
    {"name", kYes},
    {"typed_config", kYes},
    {"filter_disabled", kRefused},
    {"config_discovery", kRefused},
};
// envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector
constexpr FieldRule kOfExtensionsFiltersListenerTlsinspectorTlsInspector[] = {
    {"enable_ja3_fingerprinting", kRefused},
    {"enable_ja4_fingerprinting", kRefused},
    {"initial_read_buffer_size", kYes},
    {"max_client_hello_size", kIgnored},
    {"close_connection_on_client_hello_parsing_errors", kIgnored},
};
// envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol
constexpr FieldRule kOfExtensionsFiltersListenerProxyprotocolProxyProtocol[] = {
    {"rules", kIgnored, "TLVs are not read"},
    {"allow_requests_without_proxy_protocol", kYes, "`accept: optional`"},
    {"pass_through_tlvs", kRefused},
    {"disallowed_versions", kRefused},
    {"stat_prefix", kYes},
    {"tlv_location", kIgnored},
};
// envoy.config.listener.v3.FilterChain
constexpr FieldRule kOfConfigListenerFilterChain[] = {
    {"filter_chain_match", kYes, "", "envoy.config.listener.v3.FilterChainMatch"},
    {"filters", kYes, "", "envoy.config.listener.v3.Filter"},
    {"transport_socket", kYes, "TLS, or none", "envoy.config.core.v3.TransportSocket"},
    {"transport_socket_connect_timeout", kYes, "`tls.handshake_timeout`"},
    {"name", kYes},
    {"metadata", kYes},
    {"use_proxy_proto", kRefused, "use the listener filter"},
    {"on_demand_configuration", kRefused},
};
// envoy.config.listener.v3.FilterChainMatch
constexpr FieldRule kOfConfigListenerFilterChainMatch[] = {
    {"server_names", kYes,
     "`server_names` of listeners that share the address, if the options of the filter chains differ or their names "
     "overlap; else by certificate and host with `http`, by `match.sni` with `tcp`"},
    {"application_protocols", kYes, "`match.alpn` with `tcp`"},
    {"transport_protocol", kYes, "`tls` or `raw_buffer`, as the transport socket says anyway"},
    {"destination_port", kRefused},
    {"prefix_ranges", kRefused},
    {"address_suffix", kRefused},
    {"suffix_len", kRefused},
    {"direct_source_prefix_ranges", kRefused},
    {"source_type", kRefused},
    {"source_prefix_ranges", kRefused},
    {"source_ports", kRefused},
};
// envoy.config.listener.v3.Filter
constexpr FieldRule kOfConfigListenerFilter[] = {
    {"name", kYes},
    {"typed_config", kYes, "HttpConnectionManager, TcpProxy, ConnectionLimit"},
    {"config_discovery", kRefused},
};
// envoy.config.core.v3.TransportSocket
constexpr FieldRule kOfConfigCoreTransportSocket[] = {
    {"name", kYes},
    {"typed_config", kYes, "UpstreamTlsContext, DownstreamTlsContext, ProxyProtocolUpstreamTransport, RawBuffer"},
};
// envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
constexpr FieldRule kOfExtensionsTransportsocketsTlsDownstreamTlsContext[] = {
    {"common_tls_context", kYes, "", "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext"},
    {"require_client_certificate", kYes, "`tls.client_certificate: require`"},
    {"require_sni", kRefused},
    {"session_ticket_keys", kYes, "files: `tls.ticket_keys`",
     "envoy.extensions.transport_sockets.tls.v3.TlsSessionTicketKeys"},
    {"session_ticket_keys_sds_secret_config", kRefused},
    {"disable_stateless_session_resumption", kYes, "`tls.tickets: false`"},
    {"disable_stateful_session_resumption", kYes, "there is no such cache"},
    {"session_timeout", kIgnored},
    {"ocsp_staple_policy", kIgnored, "a staple that is there is sent, whatever its age"},
    {"full_scan_certs_on_sni_mismatch", kIgnored},
    {"prefer_client_ciphers", kIgnored},
};
// envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
constexpr FieldRule kOfExtensionsTransportsocketsTlsUpstreamTlsContext[] = {
    {"common_tls_context", kYes, "", "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext"},
    {"sni", kYes, "`tls.server_name`"},
    {"auto_host_sni", kRefused},
    {"auto_sni_san_validation", kRefused},
    {"allow_renegotiation", kRefused},
    {"max_session_keys", kIgnored},
    {"enforce_rsa_key_usage", kIgnored},
};
// envoy.extensions.transport_sockets.tls.v3.CommonTlsContext
constexpr FieldRule kOfExtensionsTransportsocketsTlsCommonTlsContext[] = {
    {"tls_params", kYes, "", "envoy.extensions.transport_sockets.tls.v3.TlsParameters"},
    {"tls_certificates", kYes, "files", "envoy.extensions.transport_sockets.tls.v3.TlsCertificate"},
    {"tls_certificate_sds_secret_configs", kYes, "secrets that are in the input",
     "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig"},
    {"validation_context", kYes, "", "envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext"},
    {"validation_context_sds_secret_config", kYes, "secrets that are in the input",
     "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig"},
    {"combined_validation_context", kYes, "",
     "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.CombinedCertificateValidationContext"},
    {"alpn_protocols", kYes, "`tls.alpn`; with `http` those of h2 and http/1.1"},
    {"tls_certificate_provider_instance", kRefused},
    {"tls_certificate_certificate_provider_instance", kRefused},
    {"tls_certificate_certificate_provider", kRefused},
    {"custom_handshaker", kRefused},
    {"custom_tls_certificate_selector", kRefused},
    {"key_log", kIgnored},
    {"validation_context_certificate_provider", kRefused},
    {"validation_context_certificate_provider_instance", kRefused},
};
// envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.CombinedCertificateValidationContext
constexpr FieldRule kOfExtensionsTransportsocketsTlsCommonTlsContextCombinedCertificateValidationContext[] = {
    {"default_validation_context", kYes, "", "envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext"},
    {"validation_context_sds_secret_config", kYes, "", "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig"},
    {"validation_context_certificate_provider", kRefused},
    {"validation_context_certificate_provider_instance", kRefused},
};
// envoy.extensions.transport_sockets.tls.v3.TlsParameters
constexpr FieldRule kOfExtensionsTransportsocketsTlsTlsParameters[] = {
    {"tls_minimum_protocol_version", kYes, "1.2 or 1.3; older ones become 1.2"},
    {"tls_maximum_protocol_version", kIgnored, "TLS 1.3 is always possible"},
    {"cipher_suites", kIgnored, "they are chosen by Sluice"},
    {"ecdh_curves", kIgnored, "they are chosen by Sluice"},
    {"signature_algorithms", kIgnored, "they are chosen by Sluice"},
    {"compliance_policies", kRefused},
};
// envoy.extensions.transport_sockets.tls.v3.TlsCertificate
constexpr FieldRule kOfExtensionsTransportsocketsTlsTlsCertificate[] = {
    {"certificate_chain", kYes, "file", "envoy.config.core.v3.DataSource"},
    {"private_key", kYes, "file", "envoy.config.core.v3.DataSource"},
    {"ocsp_staple", kYes, "file", "envoy.config.core.v3.DataSource"},
    {"password", kRefused, "keys with a password are not read"},
    {"pkcs12", kRefused},
    {"private_key_provider", kRefused},
    {"watched_directory", kIgnored, "see `watch`"},
    {"signed_certificate_timestamp", kIgnored},
};
// envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig
constexpr FieldRule kOfExtensionsTransportsocketsTlsSdsSecretConfig[] = {
    {"name", kYes},
    {"sds_config", kYes, "the secret has to be in the input"},
};
// envoy.extensions.transport_sockets.tls.v3.Secret
constexpr FieldRule kOfExtensionsTransportsocketsTlsSecret[] = {
    {"name", kYes},
    {"tls_certificate", kYes, "", "envoy.extensions.transport_sockets.tls.v3.TlsCertificate"},
    {"validation_context", kYes, "", "envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext"},
    {"session_ticket_keys", kRefused},
    {"generic_secret", kRefused},
};
// envoy.extensions.transport_sockets.tls.v3.TlsSessionTicketKeys
constexpr FieldRule kOfExtensionsTransportsocketsTlsTlsSessionTicketKeys[] = {
    {"keys", kYes, "files", "envoy.config.core.v3.DataSource"},
};
// envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext
constexpr FieldRule kOfExtensionsTransportsocketsTlsCertificateValidationContext[] = {
    {"trusted_ca", kYes, "file", "envoy.config.core.v3.DataSource"},
    {"match_typed_subject_alt_names", kYes, "of an upstream: exact DNS names, URIs and IP addresses",
     "envoy.extensions.transport_sockets.tls.v3.SubjectAltNameMatcher"},
    {"match_subject_alt_names", kYes, "of an upstream: exact names", "envoy.type.matcher.v3.StringMatcher"},
    {"verify_certificate_spki", kRefused},
    {"verify_certificate_hash", kRefused},
    {"crl", kRefused},
    {"allow_expired_certificate", kRefused},
    {"trust_chain_verification", kRefused},
    {"require_signed_certificate_timestamp", kRefused},
    {"custom_validator_config", kRefused},
    {"only_verify_leaf_cert_crl", kRefused},
    {"max_verify_depth", kYes, "`tls.client_depth` of a listener"},
    {"watched_directory", kIgnored, "see `watch`"},
    {"ca_certificate_provider_instance", kRefused},
    {"system_root_certs", kYes, "of an upstream: those of the system"},
};
// envoy.extensions.transport_sockets.tls.v3.SubjectAltNameMatcher
constexpr FieldRule kOfExtensionsTransportsocketsTlsSubjectAltNameMatcher[] = {
    {"san_type", kYes, "DNS, URI, IP_ADDRESS"},
    {"matcher", kYes, "exact", "envoy.type.matcher.v3.StringMatcher"},
    {"oid", kRefused},
};

}  // namespace

std::span<const MessageRule> listener_messages() {
  static const MessageRule messages[] = {
      {"envoy.config.bootstrap.v3.Bootstrap", kOfConfigBootstrapBootstrap},
      {"envoy.config.bootstrap.v3.Bootstrap.StaticResources", kOfConfigBootstrapBootstrapStaticResources},
      {"envoy.config.bootstrap.v3.Admin", kOfConfigBootstrapAdmin},
      {"envoy.config.overload.v3.OverloadManager", kOfConfigOverloadOverloadManager},
      {"envoy.config.overload.v3.ResourceMonitor", kOfConfigOverloadResourceMonitor},
      {"envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
       kOfExtensionsResourcemonitorsDownstreamconnectionsDownstreamConnectionsConfig},
      {"envoy.config.listener.v3.Listener", kOfConfigListenerListener},
      {"envoy.config.listener.v3.AdditionalAddress", kOfConfigListenerAdditionalAddress},
      {"envoy.config.listener.v3.ListenerFilter", kOfConfigListenerListenerFilter},
      {"envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector",
       kOfExtensionsFiltersListenerTlsinspectorTlsInspector},
      {"envoy.extensions.filters.listener.http_inspector.v3.HttpInspector", {}},
      {"envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol",
       kOfExtensionsFiltersListenerProxyprotocolProxyProtocol},
      {"envoy.config.listener.v3.FilterChain", kOfConfigListenerFilterChain},
      {"envoy.config.listener.v3.FilterChainMatch", kOfConfigListenerFilterChainMatch},
      {"envoy.config.listener.v3.Filter", kOfConfigListenerFilter},
      {"envoy.config.core.v3.TransportSocket", kOfConfigCoreTransportSocket},
      {"envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer", {}},
      {"envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
       kOfExtensionsTransportsocketsTlsDownstreamTlsContext},
      {"envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
       kOfExtensionsTransportsocketsTlsUpstreamTlsContext},
      {"envoy.extensions.transport_sockets.tls.v3.CommonTlsContext", kOfExtensionsTransportsocketsTlsCommonTlsContext},
      {"envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.CombinedCertificateValidationContext",
       kOfExtensionsTransportsocketsTlsCommonTlsContextCombinedCertificateValidationContext},
      {"envoy.extensions.transport_sockets.tls.v3.TlsParameters", kOfExtensionsTransportsocketsTlsTlsParameters},
      {"envoy.extensions.transport_sockets.tls.v3.TlsCertificate", kOfExtensionsTransportsocketsTlsTlsCertificate},
      {"envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig", kOfExtensionsTransportsocketsTlsSdsSecretConfig},
      {"envoy.extensions.transport_sockets.tls.v3.Secret", kOfExtensionsTransportsocketsTlsSecret},
      {"envoy.extensions.transport_sockets.tls.v3.TlsSessionTicketKeys",
       kOfExtensionsTransportsocketsTlsTlsSessionTicketKeys},
      {"envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext",
       kOfExtensionsTransportsocketsTlsCertificateValidationContext},
      {"envoy.extensions.transport_sockets.tls.v3.SubjectAltNameMatcher",
       kOfExtensionsTransportsocketsTlsSubjectAltNameMatcher},
  };
  return messages;
}

}  // namespace sluice::envoy
