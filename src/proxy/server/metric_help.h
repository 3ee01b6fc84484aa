#pragma once

#include <string_view>

namespace sluice {

/// What a metric means, in one sentence without line breaks; `name` is without the prefix `sluice_`. Empty for an
/// unknown name. docs/reference/counters.md says more; a test of the tree checks that each metric is in both.
std::string_view metric_help(std::string_view name);

}  // namespace sluice
