#include "proxy/profile/profile_turn.h"

#include "absl/status/status.h"

namespace sluice {

absl::StatusOr<ProfileTurn> ProfileTurn::take() {
  if (taken_.exchange(true)) return absl::AlreadyExistsError("another profile is in progress");
  return ProfileTurn();
}

}  // namespace sluice
