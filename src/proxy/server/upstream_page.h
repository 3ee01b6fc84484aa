#pragma once

#include <cstdint>

#include "proxy/common/json_writer.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

/// Writes an upstream as an object: its endpoints with their addresses, and of each address its state with the reason.
/// `now_ms` is in the time of monotonic_ms(). Callable on any thread.
void write_upstream(UpstreamState& upstream, uint64_t now_ms, JsonWriter& json);

}  // namespace sluice
