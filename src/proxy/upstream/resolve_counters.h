#pragma once

#include "proxy/common/counter.h"

namespace sluice {

/// What the resolver counts for one name.
struct ResolveCounters {
  Counter lookups;    ///< That were begun,
  Counter failures;   ///< and of these, that brought no answer: what was known before stays.
  Counter empty;      ///< The answer was that there is nothing of that name.
  Counter changes;    ///< Answers that changed something.
  Counter left_out;   ///< Addresses for which there was no place, each time.
  Counter addresses;  ///< There are now.
};

}  // namespace sluice
