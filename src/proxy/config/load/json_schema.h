// The JSON schema of a configuration, for editors. It is generated from the key table in schema.h, as the loader is.
#pragma once

#include <string>

namespace sluice::config {

/// Returns the schema, in JSON Schema draft 7, the most widely supported by editors. `sluice schema` prints it, and
/// docs/reference/sluice.schema.json contains it. It accepts every file that the loader accepts, provided that numbers
/// and texts are written as such in YAML. It rejects unknown and missing keys, values of the wrong type, and counts out
/// of bounds. Rules that involve several keys, and bounds on durations, are left to `sluice check`.
std::string json_schema();

}  // namespace sluice::config
