#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

/// What is said to a client that has to prove who it is.
enum class AuthResult : uint8_t {
  kAdmitted,
  kRefused,   ///< 401, with a challenge.
  kLater,     ///< A password is being checked; who asked is told.
  kBusy,      ///< Too many are. 503
  kTooLarge,  ///< The claims leave no room in the request's head. 400
};

}  // namespace sluice
