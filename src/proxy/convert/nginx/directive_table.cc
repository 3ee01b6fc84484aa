#include "proxy/convert/nginx/directive_table.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice::convert::nginx {
namespace {

constexpr Fate kMapped = Fate::kMapped, kIgnored = Fate::kIgnored, kRefused = Fate::kRefused, kContent = Fate::kContent,
               kGuard = Fate::kGuard;

constexpr std::string_view kNoFiles = "Sluice serves no files: its requests get 503";
constexpr std::string_view kOnlyHttp = "upstreams are spoken to by HTTP only: its requests get 503";
constexpr std::string_view kStreams = "bodies pass as they come; see `buffer` in docs/guides/buffering.md";
constexpr std::string_view kNoCache = "there is no cache";
constexpr std::string_view kNoBodyChange = "bodies are not changed";
constexpr std::string_view kOwnMemory = "memory is bounded by `memory`: see docs/operating/memory.md";
constexpr std::string_view kProcess = "a matter of nginx's processes";
constexpr std::string_view kTlsChoice = "Sluice chooses ciphers, curves and sessions by itself: see docs/guides/tls.md";
constexpr std::string_view kFileMatter = "a matter of files, which Sluice does not serve";
constexpr std::string_view kNoCode = "there are no scripts: what it guards gets 403";
constexpr std::string_view kNoGuard = "there is no counterpart: what it guards gets 403";
constexpr std::string_view kNoVariables = "there are no variables of one's own: directives that use them are refused";
constexpr std::string_view kSockets = "sockets have Sluice's own settings";
constexpr std::string_view kTypes = "the type of a response is its own";

// By name.
constexpr auto kTable = std::to_array<KnownDirective>({
    {"absolute_redirect", kIgnored, "a redirect within the host has a Location without it, which clients understand"},
    {"accept_mutex", kIgnored, kProcess},
    {"access_by_lua", kGuard, kNoCode},
    {"access_by_lua_block", kGuard, kNoCode},
    {"access_by_lua_file", kGuard, kNoCode},
    {"access_log", kMapped},
    {"add_after_body", kRefused, kNoBodyChange},
    {"add_before_body", kRefused, kNoBodyChange},
    {"add_header", kMapped},
    {"aio", kIgnored, kFileMatter},
    {"alias", kContent, kNoFiles},
    {"allow", kMapped},
    {"auth_basic", kMapped},
    {"auth_basic_user_file", kMapped},
    {"auth_delay", kIgnored, "wrong passwords are bounded by `rate_limits`: see docs/guides/access.md"},
    {"auth_request", kMapped},
    {"auth_request_set", kMapped},
    {"autoindex", kContent, kNoFiles},
    {"break", kIgnored, "directives behind it are taken as if they were not"},
    {"charset", kIgnored, kTypes},
    {"chunked_transfer_encoding", kIgnored, "chunks are used where they are needed"},
    {"client_body_buffer_size", kIgnored, kStreams},
    {"client_body_temp_path", kIgnored, kStreams},
    {"client_body_timeout", kMapped},
    {"client_header_buffer_size", kIgnored, "heads are bounded by `max_head`"},
    {"client_header_timeout", kMapped},
    {"client_max_body_size", kMapped},
    {"connection_pool_size", kIgnored, kOwnMemory},
    {"content_by_lua_block", kContent, kNoCode},
    {"daemon", kIgnored, kProcess},
    {"dav_methods", kContent, kNoFiles},
    {"default_type", kMapped},
    {"deny", kMapped},
    {"directio", kIgnored, kFileMatter},
    {"env", kIgnored, kProcess},
    {"error_log", kIgnored, "the run-time log goes where `log` says: see docs/operating/logs.md"},
    {"error_page", kMapped},
    {"etag", kIgnored, kFileMatter},
    {"events", kMapped},
    {"expires", kRefused, "write the field with add_header"},
    {"fastcgi_pass", kContent, kOnlyHttp},
    {"geo", kRefused, kNoVariables},
    {"geoip_country", kRefused, kNoVariables},
    {"grpc_connect_timeout", kMapped},
    {"grpc_hide_header", kMapped},
    {"grpc_next_upstream", kMapped},
    {"grpc_next_upstream_tries", kMapped},
    {"grpc_pass", kMapped},
    {"grpc_read_timeout", kMapped},
    {"grpc_send_timeout", kIgnored, "an upstream that takes nothing is bounded by `stream_idle_timeout`"},
    {"grpc_set_header", kMapped},
    {"grpc_ssl_certificate", kMapped},
    {"grpc_ssl_certificate_key", kMapped},
    {"grpc_ssl_name", kMapped},
    {"grpc_ssl_protocols", kMapped},
    {"grpc_ssl_server_name", kMapped},
    {"grpc_ssl_trusted_certificate", kMapped},
    {"grpc_ssl_verify", kMapped},
    {"gunzip", kRefused, kNoBodyChange},
    {"gzip", kMapped},
    {"gzip_buffers", kIgnored, kOwnMemory},
    {"gzip_comp_level", kMapped},
    {"gzip_disable", kIgnored, "old browsers are not excepted"},
    {"gzip_http_version", kIgnored, "what the client accepts decides"},
    {"gzip_min_length", kMapped},
    {"gzip_proxied", kIgnored, "responses are compressed also for clients behind a proxy"},
    {"gzip_static", kIgnored, kFileMatter},
    {"gzip_types", kMapped},
    {"gzip_vary", kIgnored, "Vary is always sent"},
    {"hash", kMapped},
    {"http", kMapped},
    {"http2", kMapped},
    {"http2_max_concurrent_streams", kMapped},
    {"http2_push_preload", kIgnored, "there is no push"},
    {"if", kMapped},
    {"ignore_invalid_headers", kIgnored, "invalid fields are refused"},
    {"image_filter", kRefused, kNoBodyChange},
    {"index", kIgnored, kFileMatter},
    {"internal", kMapped},
    {"ip_hash", kMapped},
    {"js_access", kGuard, kNoCode},
    {"js_content", kContent, kNoCode},
    {"keepalive", kMapped},
    {"keepalive_disable", kIgnored, "old browsers are not excepted"},
    {"keepalive_requests", kMapped},
    {"keepalive_time", kMapped},
    {"keepalive_timeout", kMapped},
    {"large_client_header_buffers", kMapped},
    {"least_conn", kMapped},
    {"limit_conn", kMapped},
    {"limit_conn_dry_run", kIgnored, "the limit counts connections, and refuses them"},
    {"limit_conn_log_level", kIgnored, "what is refused is counted: see docs/reference/counters.md"},
    {"limit_conn_status", kIgnored, "connections beyond the limit are closed, without a response"},
    {"limit_conn_zone", kMapped},
    {"limit_except", kGuard, kNoGuard},
    {"limit_rate", kRefused, "see `response_bandwidth` in docs/guides/rate-limits.md: it is for each client"},
    {"limit_rate_after", kRefused, "see `response_bandwidth` in docs/guides/rate-limits.md"},
    {"limit_req", kMapped},
    {"limit_req_dry_run", kMapped},
    {"limit_req_log_level", kIgnored, "what is refused is counted: see docs/reference/counters.md"},
    {"limit_req_status", kMapped},
    {"limit_req_zone", kMapped},
    {"lingering_close", kIgnored, kSockets},
    {"lingering_time", kIgnored, kSockets},
    {"lingering_timeout", kIgnored, kSockets},
    {"listen", kMapped},
    {"load_module", kIgnored, "a directive of the module that is not known is refused by itself"},
    {"location", kMapped},
    {"log_format", kIgnored, "lines of the access log have Sluice's form: see docs/guides/access-log.md"},
    {"log_not_found", kIgnored, kFileMatter},
    {"log_subrequest", kIgnored, "there are no subrequests"},
    {"mail", kRefused, "there is no proxy for mail"},
    {"map", kMapped},
    {"map_hash_bucket_size", kIgnored, kOwnMemory},
    {"map_hash_max_size", kIgnored, kOwnMemory},
    {"master_process", kIgnored, kProcess},
    {"max_ranges", kIgnored, kFileMatter},
    {"merge_slashes", kMapped},
    {"mirror", kRefused, "see `mirror` in docs/guides/http.md"},
    {"mirror_request_body", kRefused, "see `mirror` in docs/guides/http.md"},
    {"modsecurity", kGuard, kNoGuard},
    {"modsecurity_rules", kGuard, kNoGuard},
    {"modsecurity_rules_file", kGuard, kNoGuard},
    {"multi_accept", kIgnored, kProcess},
    {"open_file_cache", kIgnored, kFileMatter},
    {"open_file_cache_errors", kIgnored, kFileMatter},
    {"open_file_cache_min_uses", kIgnored, kFileMatter},
    {"open_file_cache_valid", kIgnored, kFileMatter},
    {"output_buffers", kIgnored, kFileMatter},
    {"pcre_jit", kIgnored, kProcess},
    {"perl", kContent, kNoCode},
    {"pid", kIgnored, "Sluice has no file of its process: see docs/operating/running.md"},
    {"port_in_redirect", kIgnored, "a redirect within the host has a Location without host and port"},
    {"preread_buffer_size", kIgnored, kOwnMemory},
    {"preread_timeout", kMapped},
    {"proxy_bind", kRefused, "the system chooses the address of connections to upstreams"},
    {"proxy_buffer_size", kIgnored, kStreams},
    {"proxy_buffering", kIgnored, kStreams},
    {"proxy_buffers", kIgnored, kStreams},
    {"proxy_busy_buffers_size", kIgnored, kStreams},
    {"proxy_cache", kRefused, kNoCache},
    {"proxy_cache_background_update", kIgnored, kNoCache},
    {"proxy_cache_bypass", kIgnored, kNoCache},
    {"proxy_cache_key", kIgnored, kNoCache},
    {"proxy_cache_lock", kIgnored, kNoCache},
    {"proxy_cache_lock_timeout", kIgnored, kNoCache},
    {"proxy_cache_methods", kIgnored, kNoCache},
    {"proxy_cache_min_uses", kIgnored, kNoCache},
    {"proxy_cache_path", kIgnored, kNoCache},
    {"proxy_cache_revalidate", kIgnored, kNoCache},
    {"proxy_cache_use_stale", kIgnored, kNoCache},
    {"proxy_cache_valid", kIgnored, kNoCache},
    {"proxy_connect_timeout", kMapped},
    {"proxy_cookie_domain", kRefused, "cookies pass as they are"},
    {"proxy_cookie_flags", kRefused, "cookies pass as they are"},
    {"proxy_cookie_path", kRefused, "cookies pass as they are"},
    {"proxy_download_rate", kRefused, "see `response_bandwidth` in docs/guides/rate-limits.md"},
    {"proxy_force_ranges", kIgnored, "responses pass as they are"},
    {"proxy_headers_hash_bucket_size", kIgnored, kOwnMemory},
    {"proxy_headers_hash_max_size", kIgnored, kOwnMemory},
    {"proxy_hide_header", kMapped},
    {"proxy_http_version", kMapped},
    {"proxy_ignore_client_abort", kIgnored, "a request ends when its client leaves"},
    {"proxy_ignore_headers", kIgnored, kNoCache},
    {"proxy_intercept_errors", kMapped},
    {"proxy_limit_rate", kRefused, "see `response_bandwidth` in docs/guides/rate-limits.md"},
    {"proxy_max_temp_file_size", kIgnored, kStreams},
    {"proxy_method", kRefused, "methods are not changed"},
    {"proxy_next_upstream", kMapped},
    {"proxy_next_upstream_timeout", kIgnored, "attempts are bounded by their number"},
    {"proxy_next_upstream_tries", kMapped},
    {"proxy_no_cache", kIgnored, kNoCache},
    {"proxy_pass", kMapped},
    {"proxy_pass_header", kIgnored, "fields of responses are not hidden"},
    {"proxy_pass_request_body", kMapped},
    {"proxy_pass_request_headers", kRefused, "the fields of requests are forwarded"},
    {"proxy_protocol", kMapped},
    {"proxy_protocol_timeout", kMapped},
    {"proxy_read_timeout", kMapped},
    {"proxy_redirect", kMapped},
    {"proxy_request_buffering", kIgnored, kStreams},
    {"proxy_send_timeout", kIgnored, "an upstream that takes nothing is bounded by `stream_idle_timeout`"},
    {"proxy_session_drop", kIgnored, "connections to a removed server go on"},
    {"proxy_set_body", kRefused, kNoBodyChange},
    {"proxy_set_header", kMapped},
    {"proxy_socket_keepalive", kIgnored, "probes are sent: see `keepalive` of upstreams"},
    {"proxy_ssl", kMapped},
    {"proxy_ssl_certificate", kMapped},
    {"proxy_ssl_certificate_key", kMapped},
    {"proxy_ssl_ciphers", kIgnored, kTlsChoice},
    {"proxy_ssl_name", kMapped},
    {"proxy_ssl_protocols", kMapped},
    {"proxy_ssl_server_name", kMapped},
    {"proxy_ssl_session_reuse", kIgnored, kTlsChoice},
    {"proxy_ssl_trusted_certificate", kMapped},
    {"proxy_ssl_verify", kMapped},
    {"proxy_ssl_verify_depth", kIgnored, "chains of any usual length are accepted"},
    {"proxy_store", kRefused, kNoCache},
    {"proxy_temp_file_write_size", kIgnored, kStreams},
    {"proxy_temp_path", kIgnored, kStreams},
    {"proxy_timeout", kMapped},
    {"proxy_upload_rate", kRefused, "see `request_bandwidth` in docs/guides/rate-limits.md"},
    {"random", kMapped},
    {"read_ahead", kIgnored, kFileMatter},
    {"real_ip_header", kMapped},
    {"real_ip_recursive", kMapped},
    {"request_pool_size", kIgnored, kOwnMemory},
    {"reset_timedout_connection", kIgnored, kSockets},
    {"resolver", kMapped},
    {"resolver_timeout", kIgnored, "see `resolve` of upstreams"},
    {"return", kMapped},
    {"rewrite", kMapped},
    {"rewrite_log", kIgnored, "`sluice explain` shows what becomes of a request"},
    {"root", kMapped},
    {"satisfy", kMapped},
    {"scgi_pass", kContent, kOnlyHttp},
    {"secure_link", kGuard, kNoGuard},
    {"secure_link_md5", kGuard, kNoGuard},
    {"send_lowat", kIgnored, kSockets},
    {"send_timeout", kMapped},
    {"sendfile", kIgnored, kFileMatter},
    {"sendfile_max_chunk", kIgnored, kFileMatter},
    {"server", kMapped},
    {"server_name", kMapped},
    {"server_name_in_redirect", kIgnored, "a redirect within the host has a Location without it"},
    {"server_names_hash_bucket_size", kIgnored, kOwnMemory},
    {"server_names_hash_max_size", kIgnored, kOwnMemory},
    {"server_tokens", kIgnored, "Sluice sends no Server field of its own"},
    {"set", kRefused, kNoVariables},
    {"set_real_ip_from", kMapped},
    {"split_clients", kRefused, kNoVariables},
    {"ssi", kRefused, kNoBodyChange},
    {"ssl", kMapped},
    {"ssl_buffer_size", kIgnored, kTlsChoice},
    {"ssl_certificate", kMapped},
    {"ssl_certificate_key", kMapped},
    {"ssl_ciphers", kIgnored, kTlsChoice},
    {"ssl_client_certificate", kMapped},
    {"ssl_conf_command", kIgnored, kTlsChoice},
    {"ssl_crl", kGuard, "lists of revoked certificates are not read: what it guards gets 403"},
    {"ssl_dhparam", kIgnored, kTlsChoice},
    {"ssl_early_data", kIgnored, "there is no early data"},
    {"ssl_ecdh_curve", kIgnored, kTlsChoice},
    {"ssl_handshake_timeout", kMapped},
    {"ssl_ocsp", kGuard, "whether client certificates are revoked is not asked: what it guards gets 403"},
    {"ssl_password_file", kRefused, "keys must not be encrypted"},
    {"ssl_prefer_server_ciphers", kIgnored, kTlsChoice},
    {"ssl_preread", kMapped},
    {"ssl_protocols", kMapped},
    {"ssl_reject_handshake", kGuard, "there is no counterpart: its hosts get 403"},
    {"ssl_session_cache", kIgnored, kTlsChoice},
    {"ssl_session_ticket_key", kIgnored, "see `ticket_keys`, whose files have another form"},
    {"ssl_session_tickets", kMapped},
    {"ssl_session_timeout", kIgnored, kTlsChoice},
    {"ssl_stapling", kIgnored, "responses are read from a file: see `ocsp` of certificates"},
    {"ssl_stapling_file", kMapped},
    {"ssl_stapling_responder", kIgnored, "responses are read from a file: see `ocsp` of certificates"},
    {"ssl_stapling_verify", kIgnored, "responses are read from a file: see `ocsp` of certificates"},
    {"ssl_trusted_certificate", kMapped},
    {"ssl_verify_client", kMapped},
    {"ssl_verify_depth", kMapped},
    {"status_zone", kIgnored, "see docs/operating/admin.md"},
    {"stream", kMapped},
    {"stub_status", kContent, "see `admin` in docs/operating/admin.md: its requests get 503"},
    {"sub_filter", kRefused, kNoBodyChange},
    {"sub_filter_last_modified", kIgnored, kNoBodyChange},
    {"sub_filter_once", kIgnored, kNoBodyChange},
    {"sub_filter_types", kIgnored, kNoBodyChange},
    {"tcp_nodelay", kIgnored, kSockets},
    {"tcp_nopush", kIgnored, kSockets},
    {"thread_pool", kIgnored, kProcess},
    {"timer_resolution", kIgnored, kProcess},
    {"try_files", kMapped},
    {"types", kIgnored, kTypes},
    {"types_hash_bucket_size", kIgnored, kOwnMemory},
    {"types_hash_max_size", kIgnored, kOwnMemory},
    {"underscores_in_headers", kMapped},
    {"uninitialized_variable_warn", kIgnored, kProcess},
    {"upstream", kMapped},
    {"use", kIgnored, kProcess},
    {"user", kMapped},
    {"userid", kRefused, "there are no cookies of one's own, but see `sticky`"},
    {"uwsgi_pass", kContent, kOnlyHttp},
    {"valid_referers", kRefused, kNoVariables},
    {"variables_hash_bucket_size", kIgnored, kOwnMemory},
    {"variables_hash_max_size", kIgnored, kOwnMemory},
    {"worker_connections", kIgnored, "see `limits.max_connections`"},
    {"worker_cpu_affinity", kIgnored, kProcess},
    {"worker_priority", kIgnored, kProcess},
    {"worker_processes", kMapped},
    {"worker_rlimit_core", kIgnored, "see `core_dumps`"},
    {"worker_rlimit_nofile", kIgnored, "see `limits.max_connections`"},
    {"worker_shutdown_timeout", kMapped},
    {"xslt_stylesheet", kRefused, kNoBodyChange},
    {"zone", kMapped},
});
static_assert(std::is_sorted(kTable.begin(), kTable.end(),
                             [](const KnownDirective& a, const KnownDirective& b) { return a.name < b.name; }));

// Of a group of directives that are all the same.
struct KnownFamily {
  std::string_view prefix;
  Fate fate;
  std::string_view message;
};
constexpr auto kFamilies = std::to_array<KnownFamily>({
    {"brotli", kIgnored, "see `compression`, which has br"},
    {"fastcgi_", kIgnored, "it goes with fastcgi_pass"},
    {"scgi_", kIgnored, "it goes with scgi_pass"},
    {"uwsgi_", kIgnored, "it goes with uwsgi_pass"},
    {"fancyindex", kIgnored, kFileMatter},
    {"autoindex_", kIgnored, kFileMatter},
    {"open_log_file_cache", kIgnored, "a matter of nginx's logs"},
});
constexpr KnownDirective kUnknownDirective{"", kGuard, "sluice convert does not know it: what it may guard gets 403"};

// What is in these blocks has no names of directives.
bool has_plain_block(std::string_view name) {
  return name == "map" || name == "geo" || name == "split_clients" || name == "types" || name == "mail" ||
         name.ends_with("_lua_block");
}

}  // namespace

const KnownDirective& known_directive(std::string_view name) {
  const auto found = std::lower_bound(kTable.begin(), kTable.end(), name,
                                      [](const KnownDirective& row, std::string_view n) { return row.name < n; });
  if (found != kTable.end() && found->name == name) return *found;
  for (const KnownFamily& family : kFamilies) {
    if (!name.starts_with(family.prefix)) continue;
    static constexpr auto kRows = [] {
      std::array<KnownDirective, kFamilies.size()> rows = {};
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = {"", kFamilies[i].fate, kFamilies[i].message};
      return rows;
    }();
    return kRows[static_cast<size_t>(&family - kFamilies.data())];
  }
  return kUnknownDirective;
}

void report(const Directive& directive, Severity severity, std::string_view message, Findings& findings) {
  std::string name = std::string(directive.arg(0));
  const bool names = directive.name == "location" || directive.name == "upstream" || directive.name == "add_header" ||
                     directive.name.ends_with("_set_header") || directive.name == "listen" ||
                     directive.name == "server_name" || directive.name == "map";
  if (directive.name == "location" && directive.args.size() > 1) absl::StrAppend(&name, " ", directive.args[1]);
  findings.add({.kind = directive.name,
                .name = names ? name : "",
                .path = "",
                .message = std::string(message),
                .severity = severity,
                .mark = directive.mark});
}

void report_unmapped(const Directive& block, Findings& findings) {
  for (const Directive& each : block.block) {
    const KnownDirective& known = known_directive(each.name);
    if (known.fate != Fate::kMapped) {
      report(each, known.fate == Fate::kIgnored ? Severity::kIgnored : Severity::kRefused, known.message, findings);
    }
    if (!has_plain_block(each.name)) report_unmapped(each, findings);
  }
}

}  // namespace sluice::convert::nginx
