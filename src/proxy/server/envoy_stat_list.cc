#include "proxy/server/envoy_stat_list.h"

#include "absl/strings/str_cat.h"

namespace sluice {

namespace {

using enum StatType;

using Clusters = EnvoyStat<ClusterFigures>;
using Listeners = EnvoyStat<ListenerFigures>;
using Servers = EnvoyStat<ServerFigures>;

template <auto Member>
constexpr StatValue<ClusterFigures> kCluster = {
    .number = [](const ClusterFigures& f) -> uint64_t { return f.*Member; }};
template <auto Member>
constexpr StatValue<ListenerFigures> kListener = {
    .number = [](const ListenerFigures& f) -> uint64_t { return f.*Member; }};
template <auto Member>
constexpr StatValue<ServerFigures> kServer = {.number = [](const ServerFigures& f) -> uint64_t { return f.*Member; }};

bool is_used(const ClusterFigures& f) { return f.is_used(); }
bool has_tls(const ListenerFigures& f) { return f.has_tls; }
bool has_control_plane(const ServerFigures& f) { return f.has_control_plane; }

constexpr Clusters kClusterStats[] = {
    {"upstream_cx_total", kCounter, "Connections to endpoints that were begun.", "attempts to connect",
     kCluster<&ClusterFigures::connections>, is_used},
    {"upstream_cx_active", kGauge, "Connections to endpoints that are connecting or open.",
     "connections that are connecting or open, those of earlier configurations included",
     kCluster<&ClusterFigures::connections_open>, is_used},
    {"upstream_cx_connect_fail", kCounter, "Connections that could not be made.",
     "`sluice_endpoint_connect_errors_total`, all kinds", kCluster<&ClusterFigures::connect_failures>, is_used},
    {"upstream_cx_connect_timeout", kCounter, "Connections that took too long to be made.",
     "`sluice_endpoint_connect_errors_total` with kind `timeout`", kCluster<&ClusterFigures::connect_timeouts>,
     is_used},
    {"upstream_cx_rx_bytes_total", kCounter, "Bytes received from endpoints.", "`sluice_endpoint_received_bytes_total`",
     kCluster<&ClusterFigures::bytes_in>, is_used},
    {"upstream_cx_tx_bytes_total", kCounter, "Bytes sent to endpoints.", "`sluice_endpoint_sent_bytes_total`",
     kCluster<&ClusterFigures::bytes_out>, is_used},
    {"upstream_cx_connect_ms",
     kHistogram,
     "Milliseconds until a connection could be used.",
     "`sluice_upstream_connect_seconds`; not of upstreams with HTTP/2, where it ends with the endpoint's SETTINGS",
     {.times = [](const ClusterFigures& f) -> const LatencySum& { return f.connect_time; }},
     [](const ClusterFigures& f) { return !f.has_http2 && f.is_used(); }},
    {"upstream_rq_total", kCounter, "Requests that were sent to endpoints.", "`sluice_upstream_requests_total`",
     kCluster<&ClusterFigures::requests>, is_used},
    {"upstream_rq_active", kGauge, "Requests that have a connection and are under way.",
     "requests and tunnels that have a connection", kCluster<&ClusterFigures::requests_active>, is_used},
    {"upstream_rq_completed",
     kCounter,
     "Responses to requests for the cluster.",
     "the sum of `upstream_rq_xx`",
     {.number = [](const ClusterFigures& f) { return f.completed(); }},
     is_used},
    {"upstream_rq_xx",
     kCounter,
     "Responses to requests for the cluster, by class of their status.",
     "responses that were passed on, and 502, 503 and 504 that Sluice gives because the upstream has none",
     {.by_class = [](const ClusterFigures& f) -> const std::array<uint64_t, 6>& { return f.statuses; }},
     is_used},
    {"upstream_rq_time",
     kHistogram,
     "Milliseconds from the complete request to the complete response.",
     "responses that were passed on whole, but for tunnels",
     {.times = [](const ClusterFigures& f) -> const LatencySum& { return f.request_time; }},
     is_used},
    {"upstream_rq_timeout", kCounter, "Requests without a response in time.",
     "requests that end with `response_timeout`", kCluster<&ClusterFigures::timeouts>, is_used},
    {"upstream_rq_retry", kCounter, "Requests that were sent again.",
     "`sluice_upstream_retries_total`, and further attempts after a connection failed",
     kCluster<&ClusterFigures::retries>, is_used},
    {"upstream_rq_retry_overflow", kCounter, "Requests that were not sent again, as the budget was used up.",
     "`sluice_upstream_retries_over_budget_total`", kCluster<&ClusterFigures::retries_over_budget>, is_used},
    {"upstream_rq_pending_total", kCounter, "Requests that had to wait for a connection.",
     "requests that had to wait for a connection", kCluster<&ClusterFigures::waited>, is_used},
    {"upstream_rq_pending_active", kGauge, "Requests that wait for a connection.",
     "requests that wait for a connection", kCluster<&ClusterFigures::waiting>, is_used},
    {"upstream_rq_pending_overflow", kCounter, "Requests that were refused, as too many wait for a connection.",
     "`sluice_upstream_pending_refused_total`", kCluster<&ClusterFigures::overflows>, is_used},
    {"membership_total", kGauge, "Members of the cluster.",
     "`sluice_upstream_addresses`: those that the control plane calls unhealthy or draining are no endpoints",
     kCluster<&ClusterFigures::members>},
    {"membership_healthy", kGauge, "Members whose health checks pass and that are not ejected.",
     "addresses with passing health checks that are not ejected, nor drained by an operator",
     kCluster<&ClusterFigures::healthy>},
    {"outlier_detection.ejections_active", kGauge, "Members that are ejected for their errors.",
     "`sluice_endpoint_ejected`, where there is `ejection`", kCluster<&ClusterFigures::ejected>,
     [](const ClusterFigures& f) { return f.has_ejection; }},
};

constexpr Listeners kHttpStats[] = {
    {"downstream_cx_total", kCounter, "Connections of clients.",
     "connections that no limit refused when they were accepted", kListener<&ListenerFigures::connections>},
    {"downstream_cx_active", kGauge, "Connections of clients that are open.", "`sluice_sessions_active`",
     kListener<&ListenerFigures::connections_open>},
    {"downstream_cx_destroy", kCounter, "Connections of clients that have ended.", "`sluice_sessions_ended_total`",
     kListener<&ListenerFigures::connections_ended>},
    {"downstream_cx_http1_total", kCounter, "Connections with HTTP/1.1.",
     "`sluice_http_connections_total` with version `1.1`", kListener<&ListenerFigures::connections_h1>},
    {"downstream_cx_http2_total", kCounter, "Connections with HTTP/2.",
     "`sluice_http_connections_total` with version `2`", kListener<&ListenerFigures::connections_h2>},
    {"downstream_cx_idle_timeout", kCounter, "Connections that were closed because they were idle.",
     "`sluice_sessions_ended_total` with reason `idle_timeout`", kListener<&ListenerFigures::idle_timeouts>},
    {"downstream_cx_rx_bytes_total", kCounter, "Bytes received from clients.", "`sluice_received_bytes_total`",
     kListener<&ListenerFigures::bytes_in>},
    {"downstream_cx_tx_bytes_total", kCounter, "Bytes sent to clients.", "`sluice_sent_bytes_total`",
     kListener<&ListenerFigures::bytes_out>},
    {"downstream_rq_total", kCounter, "Requests.", "`sluice_http_requests_total`",
     kListener<&ListenerFigures::requests>},
    {"downstream_rq_active", kGauge, "Requests that are under way.", "`sluice_http_requests_active`",
     kListener<&ListenerFigures::requests_active>},
    {"downstream_rq_completed",
     kCounter,
     "Responses.",
     "`sluice_http_responses_total`, all classes",
     {.number = [](const ListenerFigures& f) { return f.completed(); }}},
    {"downstream_rq_xx",
     kCounter,
     "Responses, by class of their status.",
     "`sluice_http_responses_total`",
     {.by_class = [](const ListenerFigures& f) -> const std::array<uint64_t, 6>& { return f.statuses; }}},
    {"downstream_rq_time",
     kHistogram,
     "Milliseconds from the request to the end of the response.",
     "`sluice_http_request_duration_seconds`, all routes: without tunnels",
     {.times = [](const ListenerFigures& f) -> const LatencySum& { return f.request_time; }}},
};

constexpr Listeners kTcpStats[] = {
    {"downstream_cx_total", kCounter, "Connections of clients.",
     "connections that no limit refused when they were accepted", kListener<&ListenerFigures::connections>},
    {"downstream_cx_rx_bytes_total", kCounter, "Bytes received from clients.", "`sluice_received_bytes_total`",
     kListener<&ListenerFigures::bytes_in>},
    {"downstream_cx_tx_bytes_total", kCounter, "Bytes sent to clients.", "`sluice_sent_bytes_total`",
     kListener<&ListenerFigures::bytes_out>},
};

constexpr Listeners kListenerStats[] = {
    {"downstream_cx_total", kCounter, "Connections of clients.",
     "connections that no limit refused when they were accepted", kListener<&ListenerFigures::connections>},
    {"downstream_cx_active", kGauge, "Connections of clients that are open.", "`sluice_sessions_active`",
     kListener<&ListenerFigures::connections_open>},
    {"downstream_cx_destroy", kCounter, "Connections of clients that have ended.", "`sluice_sessions_ended_total`",
     kListener<&ListenerFigures::connections_ended>},
    {"ssl.handshake", kCounter, "TLS handshakes that were completed.", "`sluice_tls_handshakes_total`",
     kListener<&ListenerFigures::tls_handshakes>, has_tls},
    {"ssl.session_reused", kCounter, "TLS handshakes that resumed a session.", "`sluice_tls_resumed_total`",
     kListener<&ListenerFigures::tls_resumed>, has_tls},
};

constexpr Servers kServerStats[] = {
    {"server.live", kGauge, "1 until the process is to stop.", "`sluice_ready`", kServer<&ServerFigures::is_live>},
    {"server.state",
     kGauge,
     "0 while the process serves, 1 once it is to stop.",
     "`sluice_ready`",
     {.number = [](const ServerFigures& f) -> uint64_t { return f.is_live ? 0 : 1; }}},
    {"server.uptime", kGauge, "Seconds since the process began.", "of this process, also after an upgrade",
     kServer<&ServerFigures::uptime_s>},
    {"server.concurrency", kGauge, "Workers.", "`workers`", kServer<&ServerFigures::workers>},
    {"server.memory_allocated", kGauge, "Bytes of memory that are allocated.",
     "the heap in use and `sluice_pool_bytes`", kServer<&ServerFigures::allocated_bytes>},
    {"server.memory_heap_size", kGauge, "Bytes of memory that are reserved.", "the heap and `sluice_pool_mapped_bytes`",
     kServer<&ServerFigures::heap_bytes>},
    {"server.memory_physical_size", kGauge, "Bytes of physical memory.", "`process_resident_memory_bytes`",
     kServer<&ServerFigures::resident_bytes>},
    {"server.total_connections", kGauge, "Connections of clients that are open.",
     "the sum of `sluice_sessions_active`; in an upgrade, of this process only", kServer<&ServerFigures::connections>},
    {"cluster_manager.active_clusters", kGauge, "Clusters in use.",
     "the clusters, static ones included; without a control plane, the upstreams",
     kServer<&ServerFigures::active_clusters>},
    {"cluster_manager.warming_clusters", kGauge, "Clusters that wait for a part.",
     "clusters whose newest version is not in use", kServer<&ServerFigures::warming_clusters>, has_control_plane},
    {"cluster_manager.cds.update_success", kCounter, "Responses with clusters that were accepted.",
     "`sluice_xds_responses_total` with kind `clusters`, result `accepted`", kServer<&ServerFigures::accepted_clusters>,
     has_control_plane},
    {"cluster_manager.cds.update_rejected", kCounter, "Responses with clusters that were rejected.",
     "the same with result `rejected`", kServer<&ServerFigures::rejected_clusters>, has_control_plane},
    {"listener_manager.total_listeners_active", kGauge, "Listeners in use.",
     "the listeners of the control plane and of the bootstrap file; without a control plane, all",
     kServer<&ServerFigures::active_listeners>},
    {"listener_manager.total_listeners_warming", kGauge, "Listeners that wait for a part.",
     "listeners whose newest version is not in use", kServer<&ServerFigures::warming_listeners>, has_control_plane},
    {"listener_manager.lds.update_success", kCounter, "Responses with listeners that were accepted.",
     "`sluice_xds_responses_total` with kind `listeners`, result `accepted`",
     kServer<&ServerFigures::accepted_listeners>, has_control_plane},
    {"listener_manager.lds.update_rejected", kCounter, "Responses with listeners that were rejected.",
     "the same with result `rejected`", kServer<&ServerFigures::rejected_listeners>, has_control_plane},
    {"control_plane.connected_state", kGauge, "1 while there is a stream to the control plane.",
     "`sluice_xds_connected`", kServer<&ServerFigures::is_connected>, has_control_plane},
};

constexpr MissingStat kMissing[] = {
    {"envoy_cluster_membership_degraded", "endpoints that are degraded are used like healthy ones"},
    {"envoy_cluster_membership_excluded", "an endpoint gets requests before its first health check"},
    {"envoy_cluster_outlier_detection_ejections_enforced_total",
     "the sum would fall when an endpoint goes: `sluice_endpoint_ejections_total`"},
    {"envoy_cluster_outlier_detection_ejections_overflow",
     "`sluice_upstream_ejections_refused_total` also counts the last endpoint that is left"},
    {"envoy_cluster_health_check_success",
     "the sum would fall when an endpoint goes: `sluice_endpoint_health_checks_total`"},
    {"envoy_cluster_health_check_failure",
     "the sum would fall when an endpoint goes: `sluice_endpoint_health_checks_failed_total`"},
    {"envoy_cluster_upstream_rq", "statuses are counted by class only: the access log has each"},
    {"envoy_cluster_upstream_rq_per_try_timeout", "attempts that took too long are not counted by themselves"},
    {"envoy_cluster_upstream_rq_rx_reset", "not counted by upstream: `sluice_http_requests_ended_total`"},
    {"envoy_cluster_upstream_rq_tx_reset", "not counted by upstream: `sluice_http_requests_ended_total`"},
    {"envoy_cluster_upstream_rq_cancelled", "not counted by upstream: `sluice_http_requests_ended_total`"},
    {"envoy_cluster_upstream_cx_destroy_local", "who closed a connection to an endpoint is not counted"},
    {"envoy_cluster_upstream_cx_destroy_remote", "who closed a connection to an endpoint is not counted"},
    {"envoy_cluster_upstream_cx_overflow",
     "`max_connections_per_endpoint` has other bounds: `sluice_http_requests_ended_total`, `no_endpoint`"},
    {"envoy_cluster_upstream_cx_none_healthy", "all endpoints are tried when none is healthy"},
    {"envoy_cluster_lb_healthy_panic", "`sluice_upstream_panics_total` counts choices of an endpoint that is down"},
    {"envoy_cluster_circuit_breakers_default_rq_open", "bounds are by worker: there is no common state"},
    {"envoy_cluster_circuit_breakers_default_cx_open", "bounds are by worker: there is no common state"},
    {"envoy_cluster_ssl_handshake", "by endpoint: `sluice_endpoint_tls_handshakes_total`"},
    {"envoy_cluster_manager_cds_update_failure", "a stream is one for all kinds: `sluice_xds_failures_total`"},
    {"envoy_cluster_manager_cds_update_attempt", "requests to the control plane are not counted"},
    {"envoy_http_downstream_rq_rx_reset", "`sluice_http_requests_ended_total`, `client_reset`, has clients that left"},
    {"envoy_http_downstream_rq_too_large", "`http.max_body` bounds the body, not what is buffered"},
    {"envoy_http_downstream_cx_ssl_total", "`sluice_tls_handshakes_total` by listener"},
    {"envoy_listener_ssl_connection_error",
     "`sluice_sessions_ended_total`, `tls_handshake`, has failed verification of certificates, too"},
    {"envoy_listener_ssl_fail_verify_error", "failed handshakes are counted together: the log has the reason"},
    {"envoy_listener_ssl_certificate_expiration_unix_time_seconds",
     "the time is not shown: a warning in the log, and `sluice check`, name certificates that have expired"},
    {"envoy_server_days_until_first_cert_expiring",
     "the time is not shown: a warning in the log, and `sluice check`, name certificates that have expired"},
    {"envoy_server_hot_restart_epoch", "upgrades are not numbered"},
};

template <class Figures>
void write_table(std::string& out, std::string_view title, std::string_view label, std::string_view scope,
                 std::span<const EnvoyStat<Figures>> stats) {
  constexpr std::string_view kTypes[] = {"counter", "gauge", "histogram"};
  absl::StrAppend(&out, "\n## ", title, "\n\n");
  if (!label.empty()) absl::StrAppend(&out, "Label: ", label, "\n\n");
  absl::StrAppend(&out, "| metric | type | what it counts | made of |\n|---|---|---|---|\n");
  for (const EnvoyStat<Figures>& each : stats) {
    absl::StrAppend(&out, "| `", metric_name(scope, each.name), "` | ", kTypes[static_cast<size_t>(each.type)], " | ",
                    each.help, " | ", each.source, " |\n");
  }
}

}  // namespace

std::span<const Clusters> cluster_stats() { return kClusterStats; }
std::span<const Listeners> http_stats() { return kHttpStats; }
std::span<const Listeners> tcp_stats() { return kTcpStats; }
std::span<const Listeners> listener_stats() { return kListenerStats; }
std::span<const Servers> server_stats() { return kServerStats; }
std::span<const MissingStat> missing_stats() { return kMissing; }

std::string metric_name(std::string_view scope, std::string_view name) {
  std::string made = absl::StrCat("envoy_", scope, name);
  for (char& each : made) each = each == '.' ? '_' : each;
  return made;
}

std::string envoy_stats_markdown() {
  std::string out;
  write_table(out, "Clusters", "`envoy_cluster_name`", "cluster.", cluster_stats());
  write_table(out, "HTTP", "`envoy_http_conn_manager_prefix`", "http.", http_stats());
  write_table(out, "TCP", "`envoy_tcp_prefix`", "tcp.", tcp_stats());
  write_table(out, "Listeners", "`envoy_listener_address`", "listener.", listener_stats());
  write_table(out, "The process", "", "", server_stats());
  absl::StrAppend(&out, "\n## Not there\n\nNo figure of Sluice's means the same as these, which dashboards query.\n\n",
                  "| metric | why |\n|---|---|\n");
  for (const MissingStat& each : missing_stats())
    absl::StrAppend(&out, "| `", each.metric, "` | ", each.reason, " |\n");
  return out;
}

}  // namespace sluice
