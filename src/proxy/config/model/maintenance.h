#pragma once

#include <chrono>
#include <string>

#include "proxy/config/model/units.h"

namespace sluice::config {

/// Takes a route down while a file exists.
struct Maintenance {
  std::string file;
  /// The value of Retry-After, in whole seconds: when clients should come back.
  Duration retry_after = std::chrono::seconds(60);

  bool operator==(const Maintenance&) const = default;
};

}  // namespace sluice::config
