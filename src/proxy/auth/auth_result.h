#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

/// The result of authenticating a client.
enum class AuthResult : uint8_t {
  kAdmitted,
  kRefused,   ///< 401, with a challenge.
  kLater,     ///< A password is being checked; the caller is notified.
  kBusy,      ///< Too many password checks are pending. 503
  kTooLarge,  ///< The request's head has no room for the claims. 400
};

}  // namespace sluice
