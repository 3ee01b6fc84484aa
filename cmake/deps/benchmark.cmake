# Gives benchmark::benchmark_main. From 1.8 on --benchmark_min_time takes a unit, as tools/test writes it.
sluice_use_system(benchmark use_system)
if(use_system)
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
  find_package(benchmark 1.8 CONFIG QUIET)
  unset(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)
  if(benchmark_FOUND)
    message(STATUS "google-benchmark ${benchmark_VERSION}: the system's")
    return()
  endif()
endif()

sluice_source(benchmark)
foreach(off TESTING GTEST_TESTS INSTALL WERROR DOXYGEN)
  set(BENCHMARK_ENABLE_${off} OFF)
endforeach()
sluice_add_dependency(benchmark)
# It looks at NDEBUG only to warn of an unoptimized library, which this is not.
target_compile_definitions(benchmark PRIVATE NDEBUG)
