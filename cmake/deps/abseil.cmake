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

sluice_source(abseil 20260526.0
  https://github.com/abseil/abseil-cpp/releases/download/20260526.0/abseil-cpp-20260526.0.tar.gz
  6e1aee535473414164bf83e4ebc40240dec71a4701f8a642d906e95bea1aea0c)
set(ABSL_PROPAGATE_CXX_STD ON)
set(ABSL_ENABLE_INSTALL OFF)
set(ABSL_BUILD_TESTING OFF)
sluice_add_dependency(abseil)
