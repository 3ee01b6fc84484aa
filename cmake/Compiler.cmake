# How everything is compiled: what must be the same in the dependencies is set for the whole build, and what is only
# for the project's own code (warnings, link-time optimization) hangs on a target.

if(PROJECT_IS_TOP_LEVEL)
  # Assertions are the project's own check macros, never a matter of NDEBUG. Line tables and frame pointers stay in
  # the release: a proxy is profiled where it runs.
  set(CMAKE_C_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_DEBUG "-Og -g")
  add_compile_options(-fno-omit-frame-pointer)

  find_program(CCACHE ccache)
  if(CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE}")
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
  endif()
endif()

if(SLUICE_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "SLUICE_FUZZ needs clang, which brings libFuzzer. Run tools/deps, then use the preset 'asan'.")
endif()

# The dependencies are instrumented too: abseil's containers have another layout under a sanitizer.
if(SLUICE_SANITIZE STREQUAL "address")
  # vptr opens a pipe to learn whether memory can be read, and so reports errors that are none in the tests that leave no
  # descriptor free.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With these gcc no longer takes a function's address for non-null in a constant expression (its bug 71962), and
    # abseil's hash tables do not compile. The preset, with clang, keeps them.
    add_compile_options(-fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute)
  endif()
elseif(SLUICE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(NOT SLUICE_SANITIZE STREQUAL "")
  message(FATAL_ERROR "SLUICE_SANITIZE is '${SLUICE_SANITIZE}': it can be empty, address, or thread.")
endif()
if(SLUICE_SANITIZE)
  # What is looked for is found at -O1 as well, and instrumented code takes long to compile.
  set(CMAKE_C_FLAGS_RELEASE "-O1 -g1 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1 -DNDEBUG")
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Without it inlined functions have no full names at -g1, and suppressions by name do not match.
    add_compile_options(-fdebug-info-for-profiling)
    # As gcc names it; clang does so from version 21 on.
    string(TOUPPER "${SLUICE_SANITIZE}" sanitizer)
    add_compile_definitions(__SANITIZE_${sanitizer}__=1)
  endif()
endif()
if(SLUICE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

add_library(sluice_warnings INTERFACE)
target_compile_options(sluice_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual
  -Wcast-align -Wcast-qual -Wextra-semi -Wimplicit-fallthrough
  # Naming only some members in a designated initializer is the point of it.
  -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(sluice_warnings INTERFACE -Wduplicated-cond -Wduplicated-branches -Wlogical-op -Wsuggest-override)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # Wrong about std::string in gcc 12 (its bug 105651).
    target_compile_options(sluice_warnings INTERFACE -Wno-restrict)
  endif()
endif()
if(SLUICE_UNITY)
  # Of one file by another that is compiled with it; within a file, the other builds report it.
  target_compile_options(sluice_warnings INTERFACE -Wno-shadow)
endif()
if(SLUICE_WERROR)
  target_compile_options(sluice_warnings INTERFACE -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND (SLUICE_SANITIZE OR SLUICE_PRECOMPILE))
    # gcc's flow analysis is misled by the code that a sanitizer inserts, and blames the standard library's headers where
    # they are precompiled; and TSan is not told of fences.
    target_compile_options(sluice_warnings INTERFACE -Wno-error=maybe-uninitialized -Wno-error=array-bounds
      -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=null-dereference -Wno-error=tsan)
  endif()
endif()

if(SLUICE_LTO)
  include(CheckIPOSupported)
  check_ipo_supported(LANGUAGES CXX)
endif()

# For each of the project's own targets. Under SLUICE_LTO the libraries hold machine code and the form for link-time
# optimization, so that only the programs that ask for it (sluice_optimize_at_link) pay for it at each link.
function(sluice_own_target target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:sluice_warnings>)
  get_target_property(type ${target} TYPE)
  if(SLUICE_LTO AND type STREQUAL "STATIC_LIBRARY")
    target_compile_options(${target} PRIVATE -flto=auto -ffat-lto-objects)
  elseif(SLUICE_LTO AND type STREQUAL "EXECUTABLE")
    # Without an option the linker's plugin would optimize at link wherever it finds the form for that.
    target_link_options(${target} PRIVATE $<IF:$<BOOL:$<TARGET_PROPERTY:SLUICE_OPTIMIZE_AT_LINK>>,-flto=auto,-fno-lto>)
  endif()
endfunction()

# For the programs that are shipped or measured.
function(sluice_optimize_at_link target)
  if(SLUICE_LTO)
    target_compile_options(${target} PRIVATE -flto=auto -ffat-lto-objects)
    set_property(TARGET ${target} PROPERTY SLUICE_OPTIMIZE_AT_LINK ON)
  endif()
endfunction()

# Most of the time of a compilation goes to headers from outside, which change never: those are compiled once for each
# target. Headers of the project's own are not among them, so that a change to one recompiles only what includes it.
set(SLUICE_STD_HEADERS <algorithm> <array> <atomic> <charconv> <chrono> <cstddef> <cstdint> <cstring> <functional> <map>
    <memory> <mutex> <optional> <set> <span> <string> <string_view> <utility> <vector>)
set(SLUICE_ABSL_HEADERS <absl/container/flat_hash_map.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
    <absl/strings/str_format.h> <absl/strings/str_join.h>)
set(SLUICE_TEST_HEADERS <gmock/gmock.h> <gtest/gtest.h> <deque> <filesystem> <fstream> <random> <sstream> <thread>)

# sluice_precompile(<target> <header>...)
function(sluice_precompile target)
  if(SLUICE_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>) # For ccache.
    else()
      # A time in the file would keep ccache from ever finding it.
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
    endif()
  endif()
endfunction()
