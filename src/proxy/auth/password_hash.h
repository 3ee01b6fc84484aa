#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace sluice {

/// Longer passwords never match. This bounds the work for passwords that untrusted clients send.
inline constexpr size_t kMaxPasswordBytes = 256;

/// Checks that password_fits() supports `hash`, as written by `htpasswd` and `mkpasswd`: bcrypt (`$2y$`), yescrypt
/// (`$y$`), SHA-512 and SHA-256 (`$6$`, `$5$`), Apache's MD5 (`$apr1$`), `{SSHA}` and `{SHA}`. The error tells the
/// operator what to do. A hash of bcrypt or SHA with a cost of more than about a second is refused too.
absl::Status check_password_hash(std::string_view hash);

/// Whether password_fits() takes milliseconds, as it does for a strong hash: too long for a worker's loop.
bool is_slow_hash(std::string_view hash);

/// Whether `hash` is the hash of `password`. The time of the comparison does not depend on where they differ.
/// Precondition: check_password_hash() returned OK.
bool password_fits(std::string_view hash, std::string_view password);

}  // namespace sluice
