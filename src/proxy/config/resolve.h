// How names of endpoints are resolved.
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/config/address.h"
#include "proxy/config/units.h"

namespace sluice::config {

/// Which addresses of a name are asked for.
enum class AddressFamily : uint8_t { kAuto, kIp4, kIp6 };

/// Names are asked for again when what they were is no longer good.
struct Resolve {
  std::vector<Address> servers;                 ///< Empty: those of /etc/resolv.conf.
  AddressFamily family = AddressFamily::kAuto;  ///< kAuto: both.
  Duration min_ttl = std::chrono::seconds(1);   ///< However short the records say that they are good,
  Duration max_ttl = std::chrono::seconds(60);  ///< and however long.
  Duration timeout = std::chrono::seconds(2);   ///< Of one try,
  uint32_t attempts = 2;                        ///< of which there are so many before it counts as failed.
  uint32_t max_addresses = 64;                  ///< Of one name; what is more is left out.

  bool operator==(const Resolve&) const = default;
};

}  // namespace sluice::config
