#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// The formats of a page of metrics. Both are UTF-8.
enum class MetricsFormat : uint8_t {
  kPrometheus,   ///< The Prometheus text format, version 0.0.4.
  kOpenMetrics,  ///< OpenMetrics 1.0. The series are the same.
};

/// The format that a client prefers: OpenMetrics if its Accept field names that with a weight above 0 that is not less
/// than those of `text/plain` and `text/*`, else the Prometheus format. `accept` is the value of the field.
MetricsFormat metrics_format(std::string_view accept);
/// The Content-Type of a format, a string literal.
std::string_view metrics_content_type(MetricsFormat format);

/// The value of a label as both formats have it between quotes. A line break becomes a blank.
std::string escaped(std::string_view value);

/// Appends the line `sluice_NAME{LABELS} VALUE`, without braces if there are no labels.
void metric_line(std::string& out, std::string_view name, std::string_view labels, uint64_t value);

/// Makes a page of lines such as `sluice_x_total{a="b"} 1`: all series of a metric together, behind its HELP and TYPE,
/// in the order in which the metrics first occur. A metric whose name ends with `_total` is a counter; one that has
/// help and whose series end with `_bucket`, `_sum` and `_count` is a histogram; any other is a gauge. The page is
/// complete with format_process_metrics() at its end.
std::string exposition(std::string_view lines, MetricsFormat format);

/// The metrics of the process that all programs name alike: `process_cpu_seconds_total` and so on, and the end of the
/// page. Those that cannot be read, such as without /proc, are left out.
std::string format_process_metrics(MetricsFormat format);

}  // namespace sluice
