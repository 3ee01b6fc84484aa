#pragma once

#include <cstdio>
#include <cstdlib>

// Assertions. SLUICE_CHECK is always on and guards invariants whose violation would corrupt data. SLUICE_DCHECK is for
// test builds and costs nothing in release builds. kDebugChecks is true when SLUICE_DCHECK is on.

namespace sluice::inline v0_1 {

/// Prints the failed condition with its file and line, then aborts. Never returns.
[[noreturn]] inline void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace sluice::inline v0_1

#define SLUICE_CHECK(condition) \
  (__builtin_expect(!!(condition), 1) ? (void)0 : ::sluice::check_failed(__FILE__, __LINE__, #condition))

// Defined by Sluice's own builds where something is looked for (src/CMakeLists.txt), for their source files. No
// installed header uses what follows: it would be compiled in another way there than in the library.
#ifdef SLUICE_DEBUG
#define SLUICE_DCHECK(condition) SLUICE_CHECK(condition)
#define SLUICE_DEBUG_CHECKS true
#else
#define SLUICE_DCHECK(condition) static_cast<void>(sizeof(!(condition)))
#define SLUICE_DEBUG_CHECKS false
#endif

namespace sluice::inline v0_1 {
constexpr bool kDebugChecks = SLUICE_DEBUG_CHECKS;
}  // namespace sluice::inline v0_1
#undef SLUICE_DEBUG_CHECKS
