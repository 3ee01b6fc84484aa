#include "proxy/http/proxy/grpc_health.h"

#include <array>

#include "proxy/common/proto_reader.h"
#include "proxy/common/proto_writer.h"
#include "proxy/http/message/grpc_message.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// Both fields in use, HealthCheckRequest.service and HealthCheckResponse.status, have this number.
constexpr uint32_t kField = 1;

}  // namespace

std::string_view serving_status_name(ServingStatus status) {
  switch (status) {
    case ServingStatus::kUnknown:
      return "UNKNOWN";
    case ServingStatus::kServing:
      return "SERVING";
    case ServingStatus::kNotServing:
      return "NOT_SERVING";
    case ServingStatus::kServiceUnknown:
      return "SERVICE_UNKNOWN";
  }
  return "an unknown status";
}

std::string grpc_health_request(std::string_view service) {
  std::string message(service.size() + 16, '\0');
  ProtoWriter out(message);
  if (!service.empty()) out.text(kField, service);
  SLUICE_CHECK(out.ok());
  const std::array prefix = grpc_prefix(static_cast<uint32_t>(out.written().size()));
  return std::string(prefix.data(), prefix.size()).append(out.written());
}

std::optional<ServingStatus> read_grpc_health_response(Buffer& body) {
  if (!unwrap_grpc_message(body)) return std::nullopt;
  const std::string message = body.to_string();
  ProtoReader in(message);
  uint64_t status = 0;  // An omitted field means 0. The last one counts.
  while (in.next()) {
    if (in.is(kField, ProtoWire::kVarint)) status = in.number();
  }
  if (!in.ok()) return std::nullopt;
  return static_cast<ServingStatus>(status > UINT8_MAX ? UINT8_MAX : status);
}

}  // namespace sluice
