// What holds for messages of Envoy's as JSON, wherever they come from.
#pragma once

#include <optional>
#include <string_view>

#include "proxy/envoy/wire_format.h"

namespace sluice::envoy {

/// The beginning of the names of protobuf's own messages.
inline constexpr std::string_view kWellKnownTypes = "google.protobuf.";
/// In the place of a secret.
inline constexpr std::string_view kRedacted = "[redacted]";

/// Whether Envoy's API marks the field as secret (`sensitive`): all texts in it are.
bool is_secret_field(std::string_view type, std::string_view field);

/// What a message such as BoolValue holds, which is written as its value; nothing if it is another one. `name`: without
/// kWellKnownTypes.
std::optional<WireKind> wrapped_kind(std::string_view name);

}  // namespace sluice::envoy
