#pragma once

#include <cstdint>

#include "proxy/http/message/stream.h"

namespace sluice::http1 {

/// What is wrong with a message. There is no error if `what` is null.
struct Error {
  uint16_t status = 0;  ///< The status with which a server responds; 0: no response.
  ResetReason reason = ResetReason::kMalformed;
  const char* what = nullptr;  ///< A string literal.

  explicit operator bool() const { return what != nullptr; }
};

constexpr Error malformed(const char* what) { return {400, ResetReason::kMalformed, what}; }
constexpr Error too_large(uint16_t status, const char* what) { return {status, ResetReason::kTooLarge, what}; }

}  // namespace sluice::http1
