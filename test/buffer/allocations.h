// Counts heap allocations. The program's malloc is replaced for this, see allocations.cc.
#pragma once

#include <cstdint>

namespace sluice::test {

/// How often this thread has allocated from the heap, by operator new, malloc or a similar function.
uint64_t allocations();

}  // namespace sluice::test
