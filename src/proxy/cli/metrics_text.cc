#include "proxy/cli/metrics_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace sluice {

MetricsText::MetricsText(std::string_view text) {
  for (const std::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty() || line.front() == '#') continue;
    const size_t name_end = line.find_first_of("{ "), value_at = line.rfind(' ');
    if (name_end == std::string_view::npos || value_at < name_end) continue;
    const std::string_view name = line.substr(0, name_end);
    Series series;
    if (absl::EndsWith(name, "_bucket") || !absl::SimpleAtod(line.substr(value_at + 1), &series.value)) continue;
    if (line[name_end] == '{') {
      if (value_at < name_end + 2 || line[value_at - 1] != '}') continue;
      series.labels = line.substr(name_end + 1, value_at - name_end - 2);
    }
    series_[name].push_back(std::move(series));
  }
}

std::span<const MetricsText::Series> MetricsText::all(std::string_view name) const {
  const auto found = series_.find(name);
  return found == series_.end() ? std::span<const Series>() : found->second;
}

double MetricsText::total(std::string_view name) const {
  double sum = 0;
  for (const Series& each : all(name)) sum += each.value;
  return sum;
}

double MetricsText::total(std::string_view name, std::string_view label_name, std::string_view value) const {
  double sum = 0;
  for (const Series& each : all(name)) {
    if (label(each.labels, label_name) == value) sum += each.value;
  }
  return sum;
}

double MetricsText::value(std::string_view name, std::string_view labels) const {
  for (const Series& each : all(name)) {
    if (each.labels == labels) return each.value;
  }
  return 0;
}

std::string MetricsText::label(std::string_view labels, std::string_view name) {
  while (!labels.empty()) {
    const size_t equals = labels.find("=\"");
    if (equals == std::string_view::npos) return "";
    const bool is_wanted = labels.substr(0, equals) == name;
    std::string value;
    size_t at = equals + 2;
    for (; at < labels.size() && labels[at] != '"'; ++at) {
      if (labels[at] == '\\' && at + 1 < labels.size()) ++at;
      value += labels[at];
    }
    if (is_wanted) return value;
    labels.remove_prefix(std::min(labels.size(), at + 2));  // The quote and the comma.
  }
  return "";
}

}  // namespace sluice
