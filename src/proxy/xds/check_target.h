#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proxy/config/model/address.h"

namespace sluice::xds {

/// An endpoint that is to be checked.
struct CheckTarget {
  config::Address address;
  uint32_t port = 0;  ///< Of checks; 0: that of the address.
  std::string host;   ///< Of requests; empty: as the check says.
};

/// Reads an envoy.config.endpoint.v3.Endpoint. An error says why it cannot be checked.
absl::StatusOr<CheckTarget> read_check_target(std::string_view endpoint);

}  // namespace sluice::xds
