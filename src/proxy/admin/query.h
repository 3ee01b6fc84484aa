#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

/// Parses the query of a request, such as `sort=age&peer=10.0.0.0%2F8`: names and values, in order. An empty query has
/// none. InvalidArgument for what is not of the form NAME=VALUE, for escapes that are none, and for a name that occurs
/// twice.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query);

}  // namespace sluice
