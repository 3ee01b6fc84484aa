#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

/// Decodes the escapes of a part of a path or of a query: `%2F`. InvalidArgument for a % that begins none.
absl::StatusOr<std::string> percent_decoded(std::string_view text);

/// Parses the query of a request, such as `sort=age&peer=10.0.0.0%2F8`: names and values, in order. An empty query has
/// none. InvalidArgument for what is not of the form NAME=VALUE, for escapes that are none, and for a name that occurs
/// twice.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query);

}  // namespace sluice
