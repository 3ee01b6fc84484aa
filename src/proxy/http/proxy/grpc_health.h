// The health protocol of gRPC (grpc/health/v1/health.proto), as far as a check needs it: one request, one response.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "buffer/buffer.h"

namespace sluice {

inline constexpr std::string_view kGrpcHealthPath = "/grpc.health.v1.Health/Check";

/// HealthCheckResponse.ServingStatus. A status that a later version may add is none of these.
enum class ServingStatus : uint8_t { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };
/// As health.proto calls it.
std::string_view serving_status_name(ServingStatus status);

/// The body of a call: a HealthCheckRequest for `service`, with its gRPC prefix. Empty: the server as a whole.
std::string grpc_health_request(std::string_view service);

/// What the body of a response says: one message with its prefix, a HealthCheckResponse. Nothing where it is not whole,
/// or not one, or compressed.
std::optional<ServingStatus> read_grpc_health_response(const Buffer& body);

}  // namespace sluice
