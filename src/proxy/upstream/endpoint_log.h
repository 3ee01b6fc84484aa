// Log lines about changes of the state of endpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/upstream/endpoint_table.h"

namespace sluice {

/// Logs a change of an endpoint's state as `upstream "U": endpoint E WHAT (1 of 2 endpoints up)`, within a limit for
/// each thread. `reason`: the part of `what` that says why, for JSON. The change is made already. `slot` is present in
/// the caller's view, or held through it.
void log_endpoint(const EndpointTable& slots, size_t slot, uint64_t now_ms, std::string_view what,
                  std::string_view reason = {});

/// Logs an event that changes no state, at level debug.
void log_endpoint_event(const EndpointTable& slots, size_t slot, std::string_view what);

/// A time span for people: ` after 5.1s`, ` after 12m 5s`; empty if the beginning is not known (0).
std::string after_text(uint64_t since_ms, uint64_t now_ms);

}  // namespace sluice
