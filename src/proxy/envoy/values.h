// Values of Envoy's API in the form of Sluice's configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/convert/common/values.h"
#include "proxy/envoy/message.h"

namespace sluice::envoy {

using convert::duration_text;
using convert::NameTable;

/// Writes the duration in `field`, if there is one, to `key` of `out`.
void put_duration(config::Node& out, std::string_view key, const Message& message, std::string_view field);

/// The same for a timeout that is never in Envoy if it is 0, and here only if it is very long.
void put_timeout(config::Node& out, std::string_view key, const Message& message, std::string_view field);

/// Writes the number in `field`, if there is one, to `key` of `out`. One that is not from `least` to `most` is replaced
/// by the nearest that is, which a finding says.
void put_number(config::Node& out, std::string_view key, const Message& message, std::string_view field,
                uint64_t least = 0, uint64_t most = UINT32_MAX);

/// The address in `field`, an envoy.config.core.v3.Address, as `1.2.3.4:80` or `unix:/path`; empty if it cannot be
/// used, which a finding says.
std::string address_text(const Message& message, std::string_view field);

/// The path of the file in `field`, an envoy.config.core.v3.DataSource; empty if it is none. A finding says so if there
/// is something else.
std::string file_of(const Message& message, std::string_view field);

/// The text in `field`, a DataSource: only one that is written there.
std::optional<std::string> inline_text_of(const Message& message, std::string_view field);

/// A CidrRange as `10.0.0.0/8`.
std::string range_text(const Message& range);

/// The share in `field`, a RuntimeFractionalPercent or FractionalPercent, in percent; nullopt if it is absent.
std::optional<double> percent_of(const Message& message, std::string_view field);

}  // namespace sluice::envoy
