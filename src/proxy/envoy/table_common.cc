#include "proxy/envoy/field_table.h"

namespace sluice::envoy {
namespace {

using enum Support;

// envoy.config.core.v3.Address
constexpr FieldRule kOfConfigCoreAddress[] = {
    {"socket_address", kYes, "", "envoy.config.core.v3.SocketAddress"},
    {"pipe", kYes, "`unix:PATH`", "envoy.config.core.v3.Pipe"},
    {"envoy_internal_address", kRefused},
};
// envoy.config.core.v3.SocketAddress
constexpr FieldRule kOfConfigCoreSocketAddress[] = {
    {"protocol", kYes, "TCP"},
    {"address", kYes},
    {"port_value", kYes},
    {"named_port", kRefused},
    {"resolver_name", kRefused},
    {"ipv4_compat", kIgnored, "see `ipv6_only`"},
    {"network_namespace_filepath", kRefused},
};
// envoy.config.core.v3.Pipe
constexpr FieldRule kOfConfigCorePipe[] = {
    {"path", kYes},
    {"mode", kIgnored, "the file has the permissions of the umask"},
};
// envoy.config.core.v3.DataSource
constexpr FieldRule kOfConfigCoreDataSource[] = {
    {"filename", kYes},
    {"inline_bytes", kYes, "only where the table says so"},
    {"inline_string", kYes, "only where the table says so"},
    {"environment_variable", kRefused},
    {"watched_directory", kIgnored, "see `watch`"},
};
// envoy.config.core.v3.CidrRange
constexpr FieldRule kOfConfigCoreCidrRange[] = {
    {"address_prefix", kYes},
    {"prefix_len", kYes},
};
// envoy.config.core.v3.RuntimeFractionalPercent
constexpr FieldRule kOfConfigCoreRuntimeFractionalPercent[] = {
    {"default_value", kYes, "", "envoy.type.v3.FractionalPercent"},
    {"runtime_key", kIgnored, "there are no runtime values"},
};
// envoy.type.v3.FractionalPercent
constexpr FieldRule kOfTypeFractionalPercent[] = {
    {"numerator", kYes},
    {"denominator", kYes},
};
// envoy.type.v3.HttpStatus
constexpr FieldRule kOfTypeHttpStatus[] = {
    {"code", kYes, "a number"},
};
// envoy.config.core.v3.TypedExtensionConfig
constexpr FieldRule kOfConfigCoreTypedExtensionConfig[] = {
    {"name", kYes},
    {"typed_config", kYes},
};
// envoy.config.core.v3.HeaderValueOption
constexpr FieldRule kOfConfigCoreHeaderValueOption[] = {
    {"header", kYes, "", "envoy.config.core.v3.HeaderValue"},
    {"append", kYes},
    {"append_action", kYes, "APPEND_IF_EXISTS_OR_ADD: `add`, OVERWRITE_IF_EXISTS_OR_ADD: `set`"},
    {"keep_empty_value", kIgnored, "fields without a value are left out"},
};
// envoy.config.core.v3.HeaderValue
constexpr FieldRule kOfConfigCoreHeaderValue[] = {
    {"key", kYes},
    {"value", kYes, "operators become variables"},
    {"raw_value", kRefused},
};
// envoy.type.matcher.v3.StringMatcher
constexpr FieldRule kOfTypeMatcherStringMatcher[] = {
    {"exact", kYes},
    {"prefix", kYes},
    {"suffix", kYes},
    {"contains", kYes},
    {"safe_regex", kYes, "", "envoy.type.matcher.v3.RegexMatcher"},
    {"ignore_case", kYes, "a regular expression"},
    {"custom", kRefused},
};
// envoy.type.matcher.v3.RegexMatcher
constexpr FieldRule kOfTypeMatcherRegexMatcher[] = {
    {"regex", kYes, "RE2, as in Envoy"},
    {"google_re2", kYes},
};
// envoy.type.matcher.v3.RegexMatchAndSubstitute
constexpr FieldRule kOfTypeMatcherRegexMatchAndSubstitute[] = {
    {"pattern", kYes, "without `^`, the first place only", "envoy.type.matcher.v3.RegexMatcher"},
    {"substitution", kYes},
};
// envoy.type.matcher.v3.PathMatcher
constexpr FieldRule kOfTypeMatcherPathMatcher[] = {
    {"path", kYes, "exact or prefix", "envoy.type.matcher.v3.StringMatcher"},
};
// envoy.config.core.v3.HttpProtocolOptions
constexpr FieldRule kOfConfigCoreHttpProtocolOptions[] = {
    {"idle_timeout", kYes, "`idle_timeout`, `pool.idle_timeout`"},
    {"max_connection_duration", kYes, "`max_connection_age` of a listener"},
    {"max_headers_count", kYes, "`max_fields` of a listener"},
    {"max_response_headers_kb", kIgnored},
    {"max_stream_duration", kYes, "`request_timeout` of a listener"},
    {"headers_with_underscores_action", kYes, "`http1.allow_underscores`; DROP_HEADER is REJECT_REQUEST"},
    {"max_requests_per_connection", kYes, "`http1.max_requests`, `http2.max_requests`, `pool.max_requests`"},
};
// envoy.config.core.v3.Http1ProtocolOptions
constexpr FieldRule kOfConfigCoreHttp1ProtocolOptions[] = {
    {"allow_absolute_url", kYes, "always so"},
    {"accept_http_10", kIgnored, "HTTP/1.0 is spoken in any case"},
    {"default_host_for_http_10", kRefused},
    {"header_key_format", kRefused, "names of fields stay as they are"},
    {"enable_trailers", kYes, "always so"},
    {"allow_chunked_length", kRefused},
    {"override_stream_error_on_invalid_http_message", kIgnored},
    {"send_fully_qualified_url", kRefused},
    {"use_balsa_parser", kYes},
    {"allow_custom_methods", kYes, "always so"},
    {"ignore_http_11_upgrade", kRefused},
    {"validate_header_values", kYes},
};
// envoy.config.core.v3.Http2ProtocolOptions
constexpr FieldRule kOfConfigCoreHttp2ProtocolOptions[] = {
    {"max_concurrent_streams", kYes, "`http2.max_streams`, `pool.max_streams`"},
    {"initial_stream_window_size", kYes, "`http2.stream_window` of a listener"},
    {"initial_connection_window_size", kYes, "`http2.connection_window` of a listener"},
    {"hpack_table_size", kIgnored},
    {"allow_connect", kYes, "extended CONNECT is always possible"},
    {"allow_metadata", kRefused},
    {"max_outbound_frames", kIgnored, "floods are limited in any case"},
    {"max_outbound_control_frames", kIgnored, "floods are limited in any case"},
    {"max_consecutive_inbound_frames_with_empty_payload", kIgnored},
    {"max_inbound_priority_frames_per_stream", kIgnored},
    {"max_inbound_window_update_frames_per_data_frame_sent", kIgnored},
    {"stream_error_on_invalid_http_messaging", kIgnored},
    {"override_stream_error_on_invalid_http_message", kIgnored},
    {"custom_settings_parameters", kRefused},
    {"connection_keepalive", kIgnored, "see `keepalive`"},
    {"use_oghttp2_codec", kYes},
    {"max_metadata_size", kIgnored},
    {"enable_huffman_encoding", kYes},
    {"max_header_field_size_kb", kIgnored},
};

}  // namespace

std::span<const MessageRule> common_messages() {
  static const MessageRule messages[] = {
      {"envoy.config.core.v3.Address", kOfConfigCoreAddress},
      {"envoy.config.core.v3.SocketAddress", kOfConfigCoreSocketAddress},
      {"envoy.config.core.v3.Pipe", kOfConfigCorePipe},
      {"envoy.config.core.v3.DataSource", kOfConfigCoreDataSource},
      {"envoy.config.core.v3.CidrRange", kOfConfigCoreCidrRange},
      {"envoy.config.core.v3.RuntimeFractionalPercent", kOfConfigCoreRuntimeFractionalPercent},
      {"envoy.type.v3.FractionalPercent", kOfTypeFractionalPercent},
      {"envoy.type.v3.HttpStatus", kOfTypeHttpStatus},
      {"envoy.config.core.v3.TypedExtensionConfig", kOfConfigCoreTypedExtensionConfig},
      {"envoy.config.core.v3.HeaderValueOption", kOfConfigCoreHeaderValueOption},
      {"envoy.config.core.v3.HeaderValue", kOfConfigCoreHeaderValue},
      {"envoy.type.matcher.v3.StringMatcher", kOfTypeMatcherStringMatcher},
      {"envoy.type.matcher.v3.RegexMatcher", kOfTypeMatcherRegexMatcher},
      {"envoy.type.matcher.v3.RegexMatchAndSubstitute", kOfTypeMatcherRegexMatchAndSubstitute},
      {"envoy.type.matcher.v3.PathMatcher", kOfTypeMatcherPathMatcher},
      {"envoy.config.core.v3.HttpProtocolOptions", kOfConfigCoreHttpProtocolOptions},
      {"envoy.config.core.v3.Http1ProtocolOptions", kOfConfigCoreHttp1ProtocolOptions},
      {"envoy.config.core.v3.Http2ProtocolOptions", kOfConfigCoreHttp2ProtocolOptions},
  };
  return messages;
}

}  // namespace sluice::envoy
