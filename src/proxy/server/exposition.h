#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// Makes a page of the Prometheus text format (version 0.0.4) of lines such as `sluice_x_total{a="b"} 1`: all series of
/// a metric together, behind its HELP and TYPE, in the order in which the metrics first occur. A metric whose name ends
/// with `_total` is a counter, any other a gauge.
std::string exposition(std::string_view lines);

/// The metrics of the process that all programs name alike: `process_cpu_seconds_total` and so on. Those that cannot be
/// read, such as without /proc, are left out.
std::string format_process_metrics();

}  // namespace sluice
