// Buffering of bodies for slow clients and upstreams.
#pragma once

#include <string>

#include "proxy/config/model/units.h"

namespace sluice::config {

/// Buffering on one route.
struct Buffering {
  /// A request is sent to the upstream when it is complete, or when this many bytes of its body have arrived. 0: as
  /// soon as its head has arrived.
  Size requests{0};
  /// Bytes of a response body that may wait here for the client, so that the upstream can finish early. 0:
  /// Http::buffer_high applies.
  Size responses{0};

  bool operator==(const Buffering&) const = default;
};

/// The file that holds buffered bodies, except for the part of each that stays in memory.
struct BodyFile {
  /// Not /tmp, which is memory on many systems.
  std::string directory = "/var/tmp";
  Size limit{1 * kGiB};

  bool operator==(const BodyFile&) const = default;
};

}  // namespace sluice::config
