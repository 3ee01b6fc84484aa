// Bodies that wait here for who is slow.
#pragma once

#include <string>

#include "proxy/config/model/units.h"

namespace sluice::config {

/// Of one route.
struct Buffering {
  /// An upstream is asked when a request is here as a whole, or so much of its body. 0: as soon as its head is here.
  Size requests{0};
  /// So much of a response's body may wait here for its client, so that the upstream is done with it. 0: what
  /// Http::buffer_high says.
  Size responses{0};

  bool operator==(const Buffering&) const = default;
};

/// The file where waiting bodies lie, beyond what is kept of each in memory.
struct BodyFile {
  /// Not /tmp, which is memory on many systems.
  std::string directory = "/var/tmp";
  Size limit{1 * kGiB};

  bool operator==(const BodyFile&) const = default;
};

}  // namespace sluice::config
