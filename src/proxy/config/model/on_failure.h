#pragma once

#include <cstdint>

namespace sluice::config {

/// What becomes of a request that another server should have judged, but did not.
enum class OnFailure : uint8_t { kRefuse, kAllow };

}  // namespace sluice::config
