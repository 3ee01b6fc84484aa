#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/admin/admin_pages.h"
#include "proxy/profile/allocation_sampler.h"
#include "proxy/server/worker_thread.h"

namespace sluice {

/// What a request for a profile asks for.
struct ProfileQuery {
  enum class Type : uint8_t { kTime, kAllocations };
  static constexpr unsigned kDefaultSeconds = 5;
  static constexpr unsigned kMaxSeconds = 60;

  Type type = Type::kTime;
  unsigned seconds = kDefaultSeconds;
  AllocationSampler::Unit unit = AllocationSampler::Unit::kBytes;  ///< Of kAllocations.
};

/// Parses the query of `/profile`. InvalidArgument says what was expected.
absl::StatusOr<ProfileQuery> parse_profile_query(std::string_view query);

/// Begins a profile of processor time or allocations, and responds when its time is over. One at a time: others get a
/// 409. On the thread of the admin listener. The workers outlive the response's work.
AdminResponse profile_page(const AdminRequest& request, const std::vector<std::unique_ptr<WorkerThread>>& workers);

}  // namespace sluice
