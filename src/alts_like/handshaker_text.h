// What others say, in words that may go to a log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// Of what somebody says about a failure.
inline constexpr size_t kMaxDetailBytes = 256;

/// At most `max_bytes` of `text`, "?" in the place of what is not printable ASCII.
std::string printable(std::string_view text, size_t max_bytes);

/// Whether `text` has only printable characters of ASCII.
bool is_printable(std::string_view text);

/// "PERMISSION_DENIED" for 7; the number itself for one that gRPC does not know.
std::string grpc_code_name(uint32_t code);

}  // namespace sluice
