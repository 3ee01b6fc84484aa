# Gives re2::re2. Debian's comes without a package file for CMake. Only the system's is used.
find_path(RE2_INCLUDE_DIR re2/re2.h)
find_library(RE2_LIBRARY re2)
mark_as_advanced(RE2_INCLUDE_DIR RE2_LIBRARY)
if(NOT RE2_INCLUDE_DIR OR NOT RE2_LIBRARY)
  message(FATAL_ERROR "RE2 is missing. Run: tools/deps (or: apt-get install libre2-dev)")
endif()
if(NOT TARGET re2::re2)
  add_library(re2::re2 UNKNOWN IMPORTED GLOBAL)
  set_target_properties(re2::re2 PROPERTIES IMPORTED_LOCATION "${RE2_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${RE2_INCLUDE_DIR}")
endif()
