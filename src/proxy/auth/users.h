#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace sluice {

/// Who has which password: what a file of `htpasswd` says. Immutable: may be used from several threads.
class Users {
 public:
  static constexpr size_t kMaxFileBytes = size_t{4} << 20;
  static constexpr size_t kMaxNameBytes = 255;

  /// Lines of `NAME:HASH`; empty ones, and those that begin with `#`, are skipped. An error begins with the line's
  /// number.
  static absl::StatusOr<Users> parse(std::string_view text);

  /// The hash of a user's password, for check_password_hash(). Of a user that there is not, null.
  const std::string* find(std::string_view name) const;
  /// Some user's hash: checked in the place of one that there is not, so that who there is cannot be told by the time
  /// that an answer takes.
  const std::string& some_hash() const { return hashes_.begin()->second; }
  size_t size() const { return hashes_.size(); }

 private:
  absl::flat_hash_map<std::string, std::string> hashes_;
};

}  // namespace sluice
