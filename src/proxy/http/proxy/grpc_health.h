// The gRPC health checking protocol (grpc/health/v1/health.proto), as far as a check needs it: one request and one
// response.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/buffer.h"

namespace sluice {

inline constexpr std::string_view kGrpcHealthPath = "/grpc.health.v1.Health/Check";

/// HealthCheckResponse.ServingStatus. Later versions may add values that are none of these.
enum class ServingStatus : uint8_t { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };
/// The name in health.proto.
std::string_view serving_status_name(ServingStatus status);

/// The body of a call: a HealthCheckRequest for `service`, with its gRPC prefix. An empty `service` means the whole
/// server.
std::string grpc_health_request(std::string_view service);

/// Parses the body of a response: one HealthCheckResponse with its gRPC prefix, which it removes. Returns nothing if it
/// is incomplete, malformed, or compressed.
std::optional<ServingStatus> read_grpc_health_response(Buffer& body);

}  // namespace sluice
