#pragma once

#include <chrono>
#include <cstdint>

namespace sluice::test {

/// Advances the time at once: from then on, loops of this program see a monotonic clock that is ahead of the machine's
/// by this much. So timeouts of minutes can be tested, and the time that the machine takes meanwhile is negligible.
void skip_time(std::chrono::milliseconds by);
/// Resets the clock to the machine's. No loop that has seen another time may exist.
void reset_time();

}  // namespace sluice::test
