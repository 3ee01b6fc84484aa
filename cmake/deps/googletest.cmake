# Gives GTest::gtest_main and GTest::gmock.
sluice_use_system(googletest use_system)
find_library(GMOCK_LIBRARY gmock) # Debian has it in a package of its own.
if(use_system AND GMOCK_LIBRARY)
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
  find_package(GTest 1.12 CONFIG QUIET)
  unset(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)
  if(TARGET GTest::gmock)
    message(STATUS "googletest ${GTest_VERSION}: the system's")
    return()
  endif()
endif()

sluice_source(googletest)
set(INSTALL_GTEST OFF)
sluice_add_dependency(googletest)
