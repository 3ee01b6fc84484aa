#pragma once

#include "proxy/common/json_writer.h"
#include "proxy/log/run_log.h"

namespace sluice {

/// Writes the members of an object: the last warnings and errors of a log, the newest first, and how many there were.
void write_recent_lines(const RunLog& log, JsonWriter& json);

}  // namespace sluice
