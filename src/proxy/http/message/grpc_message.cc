#include "proxy/http/message/grpc_message.h"

#include <charconv>
#include <iterator>
#include <system_error>

#include "sluice/cursor.h"

namespace sluice {

namespace {

constexpr std::string_view kStatusNames[] = {
    "grpc-status 0 (OK)",
    "grpc-status 1 (CANCELLED)",
    "grpc-status 2 (UNKNOWN)",
    "grpc-status 3 (INVALID_ARGUMENT)",
    "grpc-status 4 (DEADLINE_EXCEEDED)",
    "grpc-status 5 (NOT_FOUND)",
    "grpc-status 6 (ALREADY_EXISTS)",
    "grpc-status 7 (PERMISSION_DENIED)",
    "grpc-status 8 (RESOURCE_EXHAUSTED)",
    "grpc-status 9 (FAILED_PRECONDITION)",
    "grpc-status 10 (ABORTED)",
    "grpc-status 11 (OUT_OF_RANGE)",
    "grpc-status 12 (UNIMPLEMENTED)",
    "grpc-status 13 (INTERNAL)",
    "grpc-status 14 (UNAVAILABLE)",
    "grpc-status 15 (DATA_LOSS)",
    "grpc-status 16 (UNAUTHENTICATED)",
};

}  // namespace

std::array<char, kGrpcPrefixBytes> grpc_prefix(uint32_t message_bytes) {
  std::array<char, kGrpcPrefixBytes> prefix{};
  for (size_t i = 1; i < prefix.size(); ++i) prefix[i] = static_cast<char>(message_bytes >> (8 * (4 - i)));
  return prefix;
}

bool unwrap_grpc_message(Buffer& body) {
  Cursor cursor(body);
  const bool compressed = cursor.u8() != 0;
  const uint32_t bytes = cursor.u32be();
  if (!cursor.ok() || compressed || cursor.remaining() != bytes) return false;
  body.trim_front(kGrpcPrefixBytes);
  return true;
}

std::optional<uint8_t> read_grpc_status(std::string_view value) {
  uint8_t status = 0;
  const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), status);
  if (error != std::errc{} || rest != value.data() + value.size() || status >= std::size(kStatusNames)) return {};
  return status;
}

std::string_view describe_grpc_status(uint8_t status) {
  return status < std::size(kStatusNames) ? kStatusNames[status] : "an unknown grpc-status";
}

uint8_t grpc_status_of_http(uint16_t status) {
  switch (status) {
    case 400:
      return 13;  // INTERNAL
    case 401:
      return 16;  // UNAUTHENTICATED
    case 403:
      return 7;  // PERMISSION_DENIED
    case 404:
      return 12;  // UNIMPLEMENTED
    case 429:
    case 502:
    case 503:
    case 504:
      return 14;  // UNAVAILABLE
    default:
      return 2;  // UNKNOWN
  }
}

}  // namespace sluice
