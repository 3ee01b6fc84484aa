#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace sluice {

/// The users and password hashes of an `htpasswd` file. Immutable: may be used from several threads.
class Users {
 public:
  static constexpr size_t kMaxFileBytes = size_t{4} << 20;
  static constexpr size_t kMaxNameBytes = 255;

  /// Parses lines of `NAME:HASH`. Skips empty lines and those that begin with `#`. An error begins with the line
  /// number.
  static absl::StatusOr<Users> parse(std::string_view text);

  /// Returns the hash of a user's password, for password_fits(); null if there is no such user.
  const std::string* find(std::string_view name) const;
  /// Returns some user's hash. Checking it in place of an unknown user's keeps the response time from revealing which
  /// users exist.
  const std::string& some_hash() const { return hashes_.begin()->second; }
  size_t size() const { return hashes_.size(); }

 private:
  absl::flat_hash_map<std::string, std::string> hashes_;
};

}  // namespace sluice
