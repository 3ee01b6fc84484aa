#pragma once

#include <atomic>
#include <utility>

#include "absl/status/statusor.h"

namespace sluice {

/// The right to take a profile, of whatever kind: one at a time in a process. Given back when it is destroyed.
class ProfileTurn {
 public:
  /// AlreadyExists: somebody has it.
  static absl::StatusOr<ProfileTurn> take();
  ProfileTurn(ProfileTurn&& other) noexcept : owns_(std::exchange(other.owns_, false)) {}
  ProfileTurn& operator=(ProfileTurn&&) = delete;
  ~ProfileTurn() {
    if (owns_) taken_.store(false);
  }

 private:
  ProfileTurn() = default;

  static inline std::atomic<bool> taken_{false};
  bool owns_ = true;
};

}  // namespace sluice
