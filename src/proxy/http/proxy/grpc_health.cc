#include "proxy/http/proxy/grpc_health.h"

#include "sluice/cursor.h"

namespace sluice {

namespace {

// The protobuf wire types.
enum : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Both fields in use, HealthCheckRequest.service and HealthCheckResponse.status, have this number.
constexpr uint64_t kField = 1;

void append_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

// Reads at most ten bytes. A longer value is malformed, which leaves the cursor not ok.
uint64_t read_varint(Cursor& cursor) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const uint8_t byte = cursor.u8();
    if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  cursor.skip(cursor.remaining() + 1);
  return 0;
}

void skip_value(Cursor& cursor, uint64_t wire_type) {
  switch (wire_type) {
    case kVarint:
      read_varint(cursor);
      return;
    case kFixed64:
      cursor.skip(8);
      return;
    case kBytes:
      cursor.skip(read_varint(cursor));
      return;
    case kFixed32:
      cursor.skip(4);
      return;
    default:
      cursor.skip(cursor.remaining() + 1);
  }
}

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
  std::string message;
  if (!service.empty()) {
    append_varint(message, kField << 3 | kBytes);
    append_varint(message, service.size());
    message += service;
  }
  std::string body(1, '\0');  // Not compressed.
  for (int shift = 24; shift >= 0; shift -= 8) body.push_back(static_cast<char>(message.size() >> shift));
  return body + message;
}

std::optional<ServingStatus> read_grpc_health_response(const Buffer& body) {
  Cursor cursor(body);
  const bool compressed = cursor.u8() != 0;
  const uint32_t length = cursor.u32be();
  if (!cursor.ok() || compressed || cursor.remaining() != length) return std::nullopt;
  uint64_t status = 0;  // An omitted field means 0. The last one counts.
  while (cursor.ok() && cursor.remaining() > 0) {
    const uint64_t tag = read_varint(cursor);
    if (tag == (kField << 3 | kVarint)) {
      status = read_varint(cursor);
    } else {
      skip_value(cursor, tag & 7);
    }
  }
  if (!cursor.ok()) return std::nullopt;
  return static_cast<ServingStatus>(status > UINT8_MAX ? UINT8_MAX : status);
}

}  // namespace sluice
