# Gives yaml-cpp::yaml-cpp. It is small, stable and everywhere, so only the system's is used.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
find_package(yaml-cpp 0.7 CONFIG QUIET)
unset(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)
if(NOT yaml-cpp_FOUND)
  message(FATAL_ERROR "yaml-cpp 0.7 or later is missing. Run: tools/deps (or: apt-get install libyaml-cpp-dev)")
endif()
if(NOT TARGET yaml-cpp::yaml-cpp) # Its name from 0.8 on.
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
