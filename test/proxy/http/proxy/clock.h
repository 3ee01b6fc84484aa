#pragma once

#include <chrono>
#include <cstdint>

namespace sluice::test {

/// Time passes at once: loops of this program see a monotonic clock that is so much ahead of the machine's. Timeouts of
/// minutes can be tested so, and what the machine takes meanwhile is nothing beside them.
void skip_time(std::chrono::milliseconds by);
/// The clock is the machine's again: no loop that has seen another may be there any more.
void forget_skips();

}  // namespace sluice::test
