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
  message(FATAL_ERROR "SLUICE_FUZZ needs clang, which brings libFuzzer. Run tools/deps, then use the preset 'fuzz'.")
endif()

# The dependencies are instrumented too: abseil's containers have another layout under a sanitizer.
if(SLUICE_SANITIZE STREQUAL "address")
  # vptr opens a pipe to learn whether memory can be read, and so reports errors that are none in the tests that leave no
  # descriptor free.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With these gcc no longer takes a function's address for non-null in a constant expression (its bug 71962), and
    # abseil's hash tables do not compile. The preset 'fuzz', with clang, keeps them.
    add_compile_options(-fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute)
  endif()
elseif(SLUICE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(NOT SLUICE_SANITIZE STREQUAL "")
  message(FATAL_ERROR "SLUICE_SANITIZE is '${SLUICE_SANITIZE}': it can be empty, address, or thread.")
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
if(SLUICE_WERROR)
  target_compile_options(sluice_warnings INTERFACE -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND SLUICE_SANITIZE)
    # gcc's flow analysis is misled by the code that a sanitizer inserts, and TSan is not told of fences.
    target_compile_options(sluice_warnings INTERFACE -Wno-error=maybe-uninitialized -Wno-error=array-bounds
      -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=null-dereference -Wno-error=tsan)
  endif()
endif()

if(SLUICE_LTO)
  include(CheckIPOSupported)
  check_ipo_supported(LANGUAGES CXX)
endif()

# For each of the project's own targets.
function(sluice_own_target target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:sluice_warnings>)
  set_target_properties(${target} PROPERTIES INTERPROCEDURAL_OPTIMIZATION ${SLUICE_LTO})
endfunction()
