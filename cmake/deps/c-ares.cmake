# Gives the target c-ares. Stable and everywhere, so only the system's is used. 1.16 is the first version whose
# ares_getaddrinfo tells how long addresses are good.
find_path(CARES_INCLUDE_DIR ares.h)
find_library(CARES_LIBRARY cares)
if(NOT CARES_INCLUDE_DIR OR NOT CARES_LIBRARY)
  message(FATAL_ERROR "c-ares is missing. Run: tools/deps (or: apt-get install libc-ares-dev)")
endif()
add_library(c-ares INTERFACE)
target_include_directories(c-ares SYSTEM INTERFACE "${CARES_INCLUDE_DIR}")
target_link_libraries(c-ares INTERFACE "${CARES_LIBRARY}")
