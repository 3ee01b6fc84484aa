# Gives absl::*. From 20240722 on; older ones have a string_view of their own in C++20.
sluice_use_system(abseil use_system)
if(use_system AND NOT SLUICE_SANITIZE) # Its containers have another layout under a sanitizer.
  find_path(ABSEIL_INCLUDE_DIR absl/base/config.h)
  sluice_header_number("${ABSEIL_INCLUDE_DIR}/absl/base/config.h" ABSL_LTS_RELEASE_VERSION version)
  if(version GREATER_EQUAL 20240722)
    set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
    find_package(absl CONFIG QUIET)
    unset(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)
    if(absl_FOUND)
      message(STATUS "abseil ${version}: the system's")
      return()
    endif()
  endif()
endif()

sluice_source(abseil)

# Its CMake build makes a library of every folder and more, and is not part of every archive of it. This is one library, of the
# folders that what is linked below needs, without tests and what only tests use.
set(sources "")
foreach(folder base base/internal container/internal crc crc/internal debugging debugging/internal hash/internal numeric
    profiling/internal status status/internal strings strings/internal strings/internal/str_format synchronization
    synchronization/internal time time/internal/cctz/src types)
  file(GLOB files "${abseil_SOURCE_DIR}/absl/${folder}/*.cc")
  list(APPEND sources ${files})
endforeach()
list(FILTER sources EXCLUDE REGEX "(_test|_benchmark|_testing|test_[a-z_]*|testutil|_win)\\.cc$")
list(FILTER sources EXCLUDE REGEX "/(clock_interface|cordz_sample_token|examine_stack|failure_signal_handler|generic_printer|\
periodic_sampler|poison|pow10_helper|print_hash_of|profile_builder|scoped_set_env|simulated_clock|stack_consumption|\
status_builder|status_matchers)\\.cc$")
add_library(abseil STATIC EXCLUDE_FROM_ALL ${sources})
set_target_properties(abseil PROPERTIES UNITY_BUILD ${SLUICE_UNITY} UNITY_BUILD_BATCH_SIZE 16)
# These do not go together with others: they define what others define too.
set(sources strings/internal/charconv_parse.cc time/internal/cctz/src/time_zone_posix.cc time/time.cc)
list(TRANSFORM sources PREPEND "${abseil_SOURCE_DIR}/absl/")
set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
target_compile_options(abseil PRIVATE -w)
target_include_directories(abseil SYSTEM PUBLIC "${abseil_SOURCE_DIR}")
find_package(Threads REQUIRED)
target_link_libraries(abseil PUBLIC Threads::Threads)
foreach(name cleanup cord flat_hash_map status statusor str_format strings)
  add_library(absl::${name} ALIAS abseil)
endforeach()
