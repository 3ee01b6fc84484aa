#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "proxy/common/json_writer.h"
#include "proxy/listener/connection_table.h"

namespace sluice {

/// Parses the query of `/connections`. InvalidArgument says what was expected.
absl::StatusOr<ConnectionQuery> parse_connection_query(std::string_view query);

/// Writes the rows as an array.
void write_connection_rows(const std::vector<ConnectionRow>& rows, JsonWriter& json);

/// Writes what is found as an object. `responds`: whether a worker has.
void write_connections(const ConnectionTable& table, absl::FunctionRef<bool(size_t worker)> responds, JsonWriter& json);

}  // namespace sluice
