#pragma once

#include "proxy/common/counter.h"

namespace sluice {

/// The resolver's counters for one name.
struct ResolveCounters {
  Counter lookups;    ///< Lookups started.
  Counter failures;   ///< Lookups that failed; the known addresses stay in use.
  Counter empty;      ///< Answers that the name has no addresses.
  Counter changes;    ///< Answers that changed the endpoints.
  Counter left_out;   ///< Addresses without a slot, counted with each answer.
  Counter addresses;  ///< Present addresses (a gauge).
};

}  // namespace sluice
