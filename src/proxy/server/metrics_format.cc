// The choice of a format for a page of metrics (RFC 9110 section 12.5.1).

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proxy/server/exposition.h"

namespace sluice {

namespace {

// A range of an Accept field.
struct MediaRange {
  std::string_view name;
  std::string_view version;
  double weight = 1;
};

MediaRange parse_range(std::string_view text) {
  MediaRange range;
  for (const std::string_view each : absl::StrSplit(text, ';')) {
    std::string_view part = absl::StripAsciiWhitespace(each);
    if (range.name.empty()) {
      range.name = part;
    } else if (absl::ConsumePrefix(&part, "version=")) {
      range.version = absl::StripSuffix(absl::StripPrefix(part, "\""), "\"");
    } else if (absl::ConsumePrefix(&part, "q=") || absl::ConsumePrefix(&part, "Q=")) {
      if (!absl::SimpleAtod(part, &range.weight) || !(range.weight >= 0 && range.weight <= 1)) range.weight = 0;
    }
  }
  return range;
}

}  // namespace

MetricsFormat metrics_format(std::string_view accept) {
  double open = 0, text = 0;
  for (const std::string_view each : absl::StrSplit(accept, ',')) {
    const MediaRange range = parse_range(each);
    if (absl::EqualsIgnoreCase(range.name, "application/openmetrics-text")) {
      if (range.version.empty() || range.version == "1.0.0") open = std::max(open, range.weight);
    } else if (absl::EqualsIgnoreCase(range.name, "text/plain") || range.name == "text/*") {
      text = std::max(text, range.weight);
    }
  }
  return open > 0 && open >= text ? MetricsFormat::kOpenMetrics : MetricsFormat::kPrometheus;
}

std::string_view metrics_content_type(MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                               : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace sluice
