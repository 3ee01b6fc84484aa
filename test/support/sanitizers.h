#pragma once

// SLUICE_ASAN is defined where AddressSanitizer instruments the code. (Of ThreadSanitizer the builds tell clang's users
// by the macro of gcc: cmake/Compiler.cmake.)
#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_ASAN 1
#endif
#endif
