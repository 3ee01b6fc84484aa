// The JSON schema of a configuration, for editors: from the same table that the loader reads by.
#pragma once

#include <string>

namespace sluice::config {

/// The schema (JSON Schema, draft 7, which is what editors know best): what `sluice schema` prints, and what is in
/// docs/sluice.schema.json. It takes each file that the loader takes, if its numbers and texts are written as YAML has
/// them; it finds keys that do not exist or are missing, values of another type, and counts out of bounds. What
/// concerns several keys at once, and the bounds of durations, are left to `sluice check`.
std::string json_schema();

}  // namespace sluice::config
