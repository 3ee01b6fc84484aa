// Environment variables in the values of a configuration file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice::config {

/// Returns `text` with the values of its environment variables in their places: `${NAME}`, or `${NAME:-DEFAULT}`, whose
/// default counts where the variable is not set or empty. `$${` stands for `${`, and any other `$` for itself. Values
/// and defaults are not searched for variables.
///
/// InvalidArgument if a variable is not set and has no default, or if a `${` begins neither form. ResourceExhausted if
/// the values of variables have more than `budget` bytes, from which theirs are taken.
absl::StatusOr<std::string> expand_variables(std::string_view text, size_t& budget);

/// The text that expand_variables() makes `text` of.
std::string escape_variables(std::string_view text);

}  // namespace sluice::config
