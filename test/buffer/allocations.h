// Counts heap allocations. The program's malloc is replaced for it, see allocations.cc.
#pragma once

#include <cstdint>

namespace sluice::test {

/// How often this thread has allocated from the heap, by operator new, malloc or one of its kin.
uint64_t allocations();

}  // namespace sluice::test
