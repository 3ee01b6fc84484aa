// Makes text from peers and services safe for logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// Bound on the text that a peer or service gives for a failure.
inline constexpr size_t kMaxDetailBytes = 256;

/// At most `max_bytes` of `text`, with "?" in place of each byte that is not printable ASCII.
std::string printable(std::string_view text, size_t max_bytes);

/// Whether `text` is all printable ASCII.
bool is_printable(std::string_view text);

/// The name of a gRPC status code, such as "PERMISSION_DENIED" for 7; the number itself for an unknown code.
std::string grpc_code_name(uint32_t code);

}  // namespace sluice
