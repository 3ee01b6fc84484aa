#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace sluice {

/// Longer ones never fit: what is hashed is bounded, whoever sends it.
inline constexpr size_t kMaxPasswordBytes = 256;

/// Whether `hash` is of a kind that password_fits() knows, as `htpasswd` and `mkpasswd` write them: bcrypt (`$2y$`),
/// yescrypt (`$y$`), SHA-512 and SHA-256 (`$6$`, `$5$`), Apache's MD5 (`$apr1$`), `{SSHA}` and `{SHA}`. The error says
/// what to do about one that is not. So many rounds of bcrypt or SHA that they take more than a second are refused too.
absl::Status check_password_hash(std::string_view hash);

/// Whether password_fits() takes milliseconds, as a good hash should: nothing for a worker's loop.
bool is_slow_hash(std::string_view hash);

/// Whether it is the hash of `password`. The comparison takes the same time wherever they differ. Precondition:
/// check_password_hash() was OK.
bool password_fits(std::string_view hash, std::string_view password);

}  // namespace sluice
