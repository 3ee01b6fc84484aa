#pragma once

#include <cstdint>
#include <string_view>

#include "pool/chunk_pool.h"
#include "proxy/http/h1/error.h"
#include "proxy/http/message/head.h"

namespace sluice::http1 {

struct RequestLine {
  std::string_view method, target;
  bool version_1_0 = false;
};

/// Read the first line of a message, without its end. One space between the parts, neither more nor other ones; any
/// method that is_method_to_forward(); version 1.0, or 1.1, which later minor versions are read as.
Error read_request_line(std::string_view line, RequestLine& to);
Error read_status_line(std::string_view line, bool& version_1_0, uint16_t& status);

/// Turns the request target (RFC 9112 section 3.2) into the parts of `head`, with the authority of `host` where the
/// target has none. The scheme is that of the connection, whatever the target says.
Error set_target(const RequestLine& line, std::string_view host, bool secure, ChunkPool& pool, Head& head);

}  // namespace sluice::http1
