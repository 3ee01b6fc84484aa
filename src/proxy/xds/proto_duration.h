// google.protobuf.Duration in messages of a control plane.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/common/proto_writer.h"

namespace sluice::xds {

/// Reads a Duration, rounded up to whole milliseconds. Nothing if it is malformed, negative, or longer than the type
/// allows.
std::optional<uint64_t> read_duration_ms(std::string_view bytes);

void write_duration_ms(ProtoWriter& out, uint32_t field, uint64_t ms);

}  // namespace sluice::xds
