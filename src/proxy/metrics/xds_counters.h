#pragma once

#include <array>
#include <cstddef>

#include "proxy/common/counter.h"

namespace sluice {

/// Counters of the streams to one service of a control plane.
struct StreamCounters {
  Counter connects;   ///< Streams that were opened.
  Counter failures;   ///< Streams that could not be opened, or that broke.
  Counter connected;  ///< 1 while there is a stream, else 0.
};

/// Counters of the client of a health discovery service.
struct HealthDiscoveryCounters {
  StreamCounters stream;
  Counter reports;              ///< Reports of health that were sent.
  Counter checked_endpoints;    ///< Endpoints that are checked now.
  Counter unknown_endpoints;    ///< Endpoints that the service wants to be checked, and that cannot be, now.
  Counter unhealthy_endpoints;  ///< Checked endpoints that are not healthy, by the last report.
};

/// Counters of the client of a control plane. Its threads write them, each its own; any thread may read them.
struct XdsCounters {
  static constexpr size_t kKinds = 6;  ///< As xds::ResourceKind.

  std::array<Counter, kKinds> accepted;  ///< Responses, by kind.
  std::array<Counter, kKinds> rejected;
  StreamCounters stream;
  Counter updated_s;      ///< When the last response was accepted: Unix time.
  Counter from_cache;     ///< 1 while the configuration is the one from the disk.
  Counter waiting;        ///< Routes and listeners whose update waits for clusters, now.
  Counter wait_timeouts;  ///< Those that have waited in vain.
  Counter expired;        ///< Resources that were removed because their time to live was over.
  StreamCounters load_stream;
  Counter load_reports;  ///< Load reports that were sent.
  HealthDiscoveryCounters health;
};

}  // namespace sluice
