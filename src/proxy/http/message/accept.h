#pragma once

#include <cstdint>

#include "proxy/http/message/fields.h"

namespace sluice {

/// What an error can be written as.
enum class ErrorForm : uint8_t {
  kPlain,    ///< text/plain
  kJson,     ///< application/json
  kProblem,  ///< application/problem+json (RFC 9457)
};

/// Which of them a client likes best, by its Accept (RFC 9110 section 12.5.1): that of the highest weight; of several
/// the one that is named most precisely, then the first. kPlain where it names none, or nothing but `*/*`.
ErrorForm preferred_form(const Fields& request);

}  // namespace sluice
