# Gives the target nghttp2: HPACK, and the peers of tests that speak HTTP/2. From 1.61 on.
sluice_use_system(nghttp2 use_system)
if(use_system)
  find_path(NGHTTP2_INCLUDE_DIR nghttp2/nghttp2ver.h)
  find_library(NGHTTP2_LIBRARY nghttp2)
  set(version 0)
  if(NGHTTP2_INCLUDE_DIR AND NGHTTP2_LIBRARY)
    file(STRINGS "${NGHTTP2_INCLUDE_DIR}/nghttp2/nghttp2ver.h" lines REGEX "define NGHTTP2_VERSION ")
    string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" version "${lines}")
  endif()
  if(version VERSION_GREATER_EQUAL 1.61)
    message(STATUS "nghttp2 ${version}: the system's")
    add_library(nghttp2 INTERFACE)
    target_include_directories(nghttp2 SYSTEM INTERFACE "${NGHTTP2_INCLUDE_DIR}")
    target_link_libraries(nghttp2 INTERFACE "${NGHTTP2_LIBRARY}")
    return()
  endif()
endif()

sluice_source(nghttp2 1.68.1 https://github.com/nghttp2/nghttp2/releases/download/v1.68.1/nghttp2-1.68.1.tar.gz
  ceb434c1f9dfe2a9d305b6b797786fb9227484dfa88508d14ca1c50263db55d3)

# Its CMake build looks for all that its programs could use; the library needs nothing.
set(build "${PROJECT_BINARY_DIR}/_deps/nghttp2")
set(PACKAGE_VERSION 1.68.1)
set(PACKAGE_VERSION_NUM 0x014401)
configure_file("${nghttp2_SOURCE_DIR}/lib/includes/nghttp2/nghttp2ver.h.in" "${build}/nghttp2/nghttp2ver.h" @ONLY)
unset(PACKAGE_VERSION)
unset(PACKAGE_VERSION_NUM)

file(GLOB sources "${nghttp2_SOURCE_DIR}/lib/*.c")
add_library(nghttp2 STATIC EXCLUDE_FROM_ALL ${sources})
set_target_properties(nghttp2 PROPERTIES C_EXTENSIONS ON)
target_compile_definitions(nghttp2 PRIVATE NGHTTP2_STATICLIB HAVE_ARPA_INET_H HAVE_NETINET_IN_H HAVE_CLOCK_GETTIME
  HAVE_DECL_CLOCK_MONOTONIC=1)
target_compile_options(nghttp2 PRIVATE -w)
target_include_directories(nghttp2 SYSTEM PUBLIC "${nghttp2_SOURCE_DIR}/lib/includes" "${build}")
