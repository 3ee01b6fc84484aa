#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/common/json_writer.h"
#include "proxy/server/concurrency_figures.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

/// Writes an upstream as an object: its endpoints with their addresses, and of each address its state with the reason.
/// `concurrency`: nothing if it has no adaptive_concurrency. `now_ms` is in the time of monotonic_ms(). Callable on any
/// thread.
void write_upstream(UpstreamState& upstream, const std::optional<ConcurrencyFigures>& concurrency, uint64_t now_ms,
                    JsonWriter& json);

/// Writes one address of it. The slot is present in a view of the caller.
void write_address(const UpstreamState& upstream, uint32_t slot, uint64_t now_ms, JsonWriter& json);

/// `enabled`, `draining` or `disabled`.
std::string_view endpoint_mode_name(EndpointMode mode);

}  // namespace sluice
