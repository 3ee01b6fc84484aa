#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace sluice {

/// The series of one response of /metrics, in the Prometheus text format. Lines that are none are left out, and so are
/// the buckets of histograms.
class MetricsText {
 public:
  struct Series {
    std::string labels;  ///< As written, such as `listener="web",class="5xx"`.
    double value = 0;
  };

  explicit MetricsText(std::string_view text);

  /// The series of a name, in the order of the text.
  std::span<const Series> all(std::string_view name) const;
  /// The sum over the series of a name, or over those of them whose labels have this one.
  double total(std::string_view name) const;
  double total(std::string_view name, std::string_view label, std::string_view value) const;
  /// The value of a series with exactly these labels; 0 if there is none.
  double value(std::string_view name, std::string_view labels) const;
  /// The value of a label, without its escapes; empty if there is none.
  static std::string label(std::string_view labels, std::string_view name);

 private:
  absl::flat_hash_map<std::string, std::vector<Series>> series_;
};

}  // namespace sluice
