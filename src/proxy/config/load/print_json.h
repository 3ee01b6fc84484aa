// From a Config to JSON, for those who may read it but not its secrets.
#pragma once

#include "proxy/common/json_writer.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// What stands in the place of a secret.
inline constexpr char kHidden[] = "(hidden)";

/// Writes the whole configuration as one object, defaults included, with the keys of the YAML. Scalars are strings, as
/// a user writes them, apart from numbers and booleans. Secrets are replaced by kHidden: values of the key `secret`,
/// and values of header fields and query parameters whose names suggest one, such as Authorization or X-Api-Key.
void write_config(const Config& config, JsonWriter& json);

}  // namespace sluice::config
