#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "proxy/admin/admin_pages.h"

namespace sluice {

/// What a request for a profile asks for.
struct ProfileQuery {
  static constexpr unsigned kDefaultSeconds = 5;
  static constexpr unsigned kMaxSeconds = 60;
  unsigned seconds = kDefaultSeconds;
};

/// Parses the query of `/profile`. InvalidArgument says what was expected.
absl::StatusOr<ProfileQuery> parse_profile_query(std::string_view query);

/// Begins a profile of processor time, and responds when its time is over. One at a time: others get a 409. On the
/// thread of the admin listener.
AdminResponse profile_page(const AdminRequest& request);

}  // namespace sluice
