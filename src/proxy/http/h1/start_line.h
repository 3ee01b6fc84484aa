#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/http/h1/error.h"
#include "proxy/http/message/head.h"
#include "sluice/chunk_pool.h"

namespace sluice::http1 {

struct RequestLine {
  std::string_view method, target;
  bool version_1_0 = false;
};

/// These functions parse the first line of a message, without its line ending. The parts are separated by exactly one
/// space. A method must satisfy is_method_to_forward(). The version is 1.0 or 1.1; later minor versions are read as
/// 1.1.
Error read_request_line(std::string_view line, RequestLine& to);
Error read_status_line(std::string_view line, bool& version_1_0, uint16_t& status);

/// Splits the request target (RFC 9112 section 3.2) into the parts of `head`. If the target has no authority, `host` is
/// used. The scheme is that of the connection, whatever the target contains.
Error set_target(const RequestLine& line, std::string_view host, bool secure, ChunkPool& pool, Head& head);

}  // namespace sluice::http1
