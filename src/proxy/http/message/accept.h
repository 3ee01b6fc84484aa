#pragma once

#include <cstdint>

#include "proxy/http/message/fields.h"

namespace sluice {

/// The format of an error response body.
enum class ErrorForm : uint8_t {
  kPlain,    ///< text/plain
  kJson,     ///< application/json
  kProblem,  ///< application/problem+json (RFC 9457)
};

/// The format that a client prefers according to its Accept field (RFC 9110 section 12.5.1): the one with the highest
/// weight; among equals the most specific range wins, then the first. kPlain if it names no known format, or nothing
/// but `*/*`.
ErrorForm preferred_form(const Fields& request);

}  // namespace sluice
