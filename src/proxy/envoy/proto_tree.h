// Messages of protobuf as the trees that the mapping reads.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "proxy/config/load/yaml.h"

namespace sluice::envoy {

/// Reads a message of the full name `type` into `node`, in the form of proto3 JSON: fields in snake_case, durations as
/// `1.5s`, bytes in base64, the type of an Any as `@type`. A field whose number is not known here becomes a key with
/// that number, which the mapping refuses by its name. Messages of types that the mapping does not read become maps
/// without keys. An error says where the message is malformed.
///
/// Two bytes of a message may become a value of some hundred bytes: `values_left` bounds how many are made, and is
/// reduced by those.
absl::Status read_message(std::string_view type, std::string_view bytes, size_t& values_left, config::Node& node);

}  // namespace sluice::envoy
