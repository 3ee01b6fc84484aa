#include "proxy/server/process_view.h"

#include <openssl/sha.h>

#include <array>

#include "absl/strings/escaping.h"
#include "proxy/config/load/print.h"
#include "proxy/http/proxy/body_file.h"
#include "proxy/log/run_log.h"
#include "proxy/server/metrics_report.h"
#include "proxy/server/process_report.h"

namespace sluice {

namespace {

std::string format_exported_log(const ProcessView& view, size_t listener) {
  const auto total = [&](Counter ListenerCounters::* member) {
    uint64_t sum = 0;
    for (const auto& worker : view.counters) sum += ((*worker->listeners[listener]).*member).value();
    return sum;
  };
  return format_access_log(view.config->listeners[listener], total(&ListenerCounters::log_records_exported),
                           total(&ListenerCounters::log_records_dropped),
                           total(&ListenerCounters::log_requests_failed));
}

}  // namespace

std::string format_counters(const ProcessView& view, const ControlCounters& control) {
  std::string text = format_stats(*view.config, control, view.counters, view.upstreams);
  for (size_t i = 0; i < view.access_log_of_listener.size(); ++i) {
    if (const std::optional<size_t> target = view.access_log_of_listener[i]) {
      text += format_access_log(view.config->listeners[i], view.access_logs->written(*target),
                                view.access_logs->dropped(*target), view.access_logs->errors(*target));
    } else if (const config::AccessLog* const log = view.config->listeners[i].access_log()) {
      if (config::names_otlp(log->file)) text += format_exported_log(view, i);
    }
  }
  if (view.overload) text += format_overload(*view.overload);
  if (view.xds) text += format_xds(*view.xds);
  if (view.body_file) text += format_body_file(view.body_file->pool.stats());
  RunLog& run_log = RunLog::process();
  RunLogCounts counts{.dropped = run_log.lines_dropped(),
                      .prints_dropped = run_log.prints_dropped(),
                      .errors = run_log.write_errors(),
                      .suppressed = log_lines_suppressed()};
  for (size_t i = 0; i < kLogLevels; ++i) counts.lines[i] = run_log.lines(static_cast<LogLevel>(i));
  return text + format_run_log(counts);
}

std::string ConfigHash::text() const {
  const std::lock_guard lock(mutex_);
  if (!config_) return text_;
  const std::string text = config::print_config(**config_);
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const uint8_t*>(text.data()), text.size(), digest.data());
  text_ = absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
  config_.reset();
  return text_;
}

}  // namespace sluice
