// The framing of gRPC messages over HTTP/2 (the gRPC repository's doc/PROTOCOL-HTTP2.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sluice/buffer.h"

namespace sluice {

inline constexpr size_t kGrpcPrefixBytes = 5;
/// What precedes a message of this size that is not compressed.
std::array<char, kGrpcPrefixBytes> grpc_prefix(uint32_t message_bytes);
/// Removes the prefix from a body. Returns false if the body is not exactly one message without compression.
[[nodiscard]] bool unwrap_grpc_message(Buffer& body);

/// Whether a Content-Type is that of gRPC, whatever its messages are encoded in.
constexpr bool is_grpc_type(std::string_view type) {
  constexpr std::string_view kType = "application/grpc";
  return type.starts_with(kType) &&
         (type.size() == kType.size() || type[kType.size()] == '+' || type[kType.size()] == ';');
}

/// The value of a grpc-status field: 0 to 16, as the gRPC documentation's statuscodes.md numbers them.
std::optional<uint8_t> read_grpc_status(std::string_view value);
/// The name of such a status with its number, a literal.
std::string_view describe_grpc_status(uint8_t status);
/// The status that stands for an HTTP status other than 200, in a response that is not gRPC
/// (doc/http-grpc-status-mapping.md).
uint8_t grpc_status_of_http(uint16_t status);

}  // namespace sluice
