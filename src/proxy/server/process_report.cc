#include "proxy/server/process_report.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "proxy/config/model/config.h"
#include "proxy/metrics/xds_counters.h"
#include "proxy/overload/overload_state.h"
#include "proxy/server/exposition.h"
#include "proxy/xds/resource_kind.h"
#include "sluice/version.h"

namespace sluice {

std::string format_scrape(const ScrapeState& state) {
  std::string out;
  metric_line(out, "build_info", "version=\"" SLUICE_VERSION_STRING "\"", 1);
  metric_line(out, "ready", "", state.ready ? 1 : 0);
  metric_line(out, "config_generation", "", state.generation);
  metric_line(out, "config_applied_timestamp_seconds", "", static_cast<uint64_t>(state.applied_s));
  for (size_t i = 0; i < state.responds.size(); ++i) {
    metric_line(out, "worker_responds", absl::StrCat("worker=\"", i, "\""), state.responds[i] ? 1 : 0);
  }
  return out;
}

std::string format_admin(const AdminCounters& counters) {
  std::string out;
  metric_line(out, "admin_connections_accepted_total", "", counters.accepted.value());
  metric_line(out, "admin_connections_open", "", counters.open.value());
  metric_line(out, "admin_connections_refused_total", "", counters.refused_connections.value());
  metric_line(out, "admin_connections_evicted_total", "", counters.evicted.value());
  metric_line(out, "admin_requests_total", "", counters.requests.value());
  metric_line(out, "admin_requests_refused_total", "reason=\"unauthorized\"", counters.unauthorized.value());
  metric_line(out, "admin_requests_refused_total", "reason=\"host\"", counters.refused_hosts.value());
  metric_line(out, "admin_requests_refused_total", "reason=\"origin\"", counters.refused_origins.value());
  metric_line(out, "admin_requests_refused_total", "reason=\"too_large\"", counters.too_large.value());
  metric_line(out, "admin_requests_refused_total", "reason=\"memory\"", counters.refused_memory.value());
  metric_line(out, "admin_requests_refused_total", "reason=\"malformed\"", counters.malformed.value());
  metric_line(out, "admin_requests_refused_total", "reason=\"insecure\"", counters.insecure.value());
  metric_line(out, "admin_tls_handshakes_total", "", counters.tls_handshakes.value());
  metric_line(out, "admin_tls_failures_total", "", counters.tls_failures.value());
  metric_line(out, "admin_timeouts_total", "timeout=\"handshake\"", counters.handshake_timeouts.value());
  metric_line(out, "admin_timeouts_total", "timeout=\"idle\"", counters.idle_timeouts.value());
  metric_line(out, "admin_timeouts_total", "timeout=\"header\"", counters.header_timeouts.value());
  metric_line(out, "admin_timeouts_total", "timeout=\"send\"", counters.send_timeouts.value());
  metric_line(out, "admin_endpoint_changes_total", "", counters.endpoint_changes.value());
  metric_line(out, "admin_figures_timeouts_total", "", counters.figures_timeouts.value());
  return out;
}

std::string format_xds(const XdsCounters& counters) {
  std::string out;
  metric_line(out, "xds_connected", "", counters.stream.connected.value());
  metric_line(out, "xds_connects_total", "", counters.stream.connects.value());
  metric_line(out, "xds_failures_total", "", counters.stream.failures.value());
  for (const xds::KindInfo& info : xds::kKinds) {
    const auto kind = static_cast<size_t>(info.kind);
    const auto labels = [&](std::string_view result) {
      return absl::StrCat("kind=\"", info.label, "\",result=\"", result, "\"");
    };
    metric_line(out, "xds_responses_total", labels("accepted"), counters.accepted[kind].value());
    metric_line(out, "xds_responses_total", labels("rejected"), counters.rejected[kind].value());
  }
  metric_line(out, "xds_last_update_timestamp_seconds", "", counters.updated_s.value());
  metric_line(out, "xds_from_cache", "", counters.from_cache.value());
  metric_line(out, "xds_waiting_updates", "", counters.waiting.value());
  metric_line(out, "xds_wait_timeouts_total", "", counters.wait_timeouts.value());
  metric_line(out, "xds_expired_resources_total", "", counters.expired.value());
  metric_line(out, "xds_load_connected", "", counters.load_stream.connected.value());
  metric_line(out, "xds_load_connects_total", "", counters.load_stream.connects.value());
  metric_line(out, "xds_load_failures_total", "", counters.load_stream.failures.value());
  metric_line(out, "xds_load_reports_total", "", counters.load_reports.value());
  metric_line(out, "xds_health_connected", "", counters.health.stream.connected.value());
  metric_line(out, "xds_health_connects_total", "", counters.health.stream.connects.value());
  metric_line(out, "xds_health_failures_total", "", counters.health.stream.failures.value());
  metric_line(out, "xds_health_reports_total", "", counters.health.reports.value());
  metric_line(out, "xds_health_checked_endpoints", "", counters.health.checked_endpoints.value());
  metric_line(out, "xds_health_unhealthy_endpoints", "", counters.health.unhealthy_endpoints.value());
  metric_line(out, "xds_health_unknown_endpoints", "", counters.health.unknown_endpoints.value());
  return out;
}

std::string format_overload(const OverloadState& state) {
  std::string out;
  metric_line(out, "overload_memory_level", "", static_cast<uint64_t>(state.level()));
  metric_line(out, "overload_memory_used_bytes", "", state.used_bytes());
  metric_line(out, "overload_memory_limit_bytes", "", state.limit_bytes());
  return out;
}

std::string format_body_file(const FilePool::Stats& stats) {
  std::string out;
  metric_line(out, "body_file_bytes", "", stats.out_bytes);
  metric_line(out, "body_file_disk_bytes", "", stats.disk_bytes);
  metric_line(out, "body_file_limit_bytes", "", stats.limit_bytes);
  metric_line(out, "body_file_refused_total", "reason=\"limit\"", stats.refused_by_limit);
  metric_line(out, "body_file_refused_total", "reason=\"disk\"", stats.refused_by_disk);
  return out;
}

std::string format_run_log(const RunLogCounts& counts) {
  std::string out;
  for (size_t i = 0; i < counts.lines.size(); ++i) {
    const std::string_view level = log_level_name(static_cast<LogLevel>(i));
    metric_line(out, "log_lines_total", absl::StrCat("level=\"", level, "\""), counts.lines[i]);
  }
  metric_line(out, "log_dropped_total", "stream=\"log\"", counts.dropped);
  metric_line(out, "log_dropped_total", "stream=\"stdout\"", counts.prints_dropped);
  metric_line(out, "log_errors_total", "", counts.errors);
  metric_line(out, "log_suppressed_total", "", counts.suppressed);
  return out;
}

std::string format_access_log(const config::Listener& listener, uint64_t written, uint64_t dropped, uint64_t errors) {
  const std::string label = absl::StrCat("listener=\"", escaped(listener.name), "\"");
  std::string out;
  metric_line(out, "access_log_lines_total", label, written);
  metric_line(out, "access_log_dropped_total", label, dropped);
  metric_line(out, "access_log_errors_total", label, errors);
  return out;
}

}  // namespace sluice
