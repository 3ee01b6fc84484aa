#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice::config {

/// The user that the process changes to, as a user writes it: `NAME` or `NAME:GROUP`, each a name or a number. Whether
/// they exist is a matter of the machine.
class ProcessUser {
 public:
  /// None: is_set() is false.
  ProcessUser() = default;
  static absl::StatusOr<ProcessUser> parse(std::string_view text);

  bool is_set() const { return !name_.empty(); }
  const std::string& name() const { return name_; }
  /// Empty: the group of the user.
  const std::string& group() const { return group_; }
  /// In the form that parse() reads.
  std::string text() const;

  bool operator==(const ProcessUser&) const = default;

 private:
  std::string name_;
  std::string group_;
};

/// Whether the process may leave a core dump. Where it may not, no other process of its user can read its memory
/// either.
enum class CoreDumps : uint8_t {
  kAuto,  ///< As the kernel and `ulimit -c` have it, but none where `user` is set.
  kOn,
  kOff,
};

}  // namespace sluice::config
