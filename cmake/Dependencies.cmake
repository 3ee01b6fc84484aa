# The libraries that Sluice is built with. For each one, the first of these that is there:
#   1. FETCHCONTENT_SOURCE_DIR_<NAME>, as given by the user
#   2. the folder that tools/deps filled (SLUICE_DEPS_DIR)
#   3. the system's, where it is new enough (SLUICE_SYSTEM_DEPS)
#   4. the project's own release, as tools/deps.d/sources names it, checked by SHA-256
# yaml-cpp, protobuf, RE2, libcrypt and what compresses are always the system's. The buffer library alone needs none of them.

include(FetchContent)

set(deps_default "${PROJECT_SOURCE_DIR}/.deps")
if(DEFINED ENV{SLUICE_DEPS_DIR})
  set(deps_default "$ENV{SLUICE_DEPS_DIR}")
endif()
set(SLUICE_DEPS_DIR "${deps_default}" CACHE PATH "The folder that tools/deps fills")
include("${SLUICE_DEPS_DIR}/deps.cmake" OPTIONAL)
include("${CMAKE_CURRENT_LIST_DIR}/Reproducible.cmake") # For the dependencies, too.

set(pins "${PROJECT_SOURCE_DIR}/tools/deps.d/sources")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${pins}")
file(STRINGS "${pins}" SLUICE_RELEASES REGEX "^[a-z0-9]+ +[a-z]+ +[0-9.]+ +release ")

# Sets <name>_SOURCE_DIR to the source of a library, fetched if need be, and <name>_PINNED_VERSION.
function(sluice_source name)
  string(TOUPPER ${name} upper)
  set(row ${SLUICE_RELEASES})
  list(FILTER row INCLUDE REGEX "^${name} ")
  string(REGEX REPLACE " +" ";" row "${row}")
  list(GET row 2 version)
  list(GET row 4 url)
  list(GET row 5 sha256)
  if(NOT FETCHCONTENT_SOURCE_DIR_${upper} AND SLUICE_DEPS_${upper})
    set(FETCHCONTENT_SOURCE_DIR_${upper} "${SLUICE_DEPS_${upper}}")
  endif()
  set(archive "${PROJECT_BINARY_DIR}/_deps/${name}-${version}.tar.gz")
  if(NOT FETCHCONTENT_SOURCE_DIR_${upper} AND NOT EXISTS "${archive}")
    if(FETCHCONTENT_FULLY_DISCONNECTED)
      message(FATAL_ERROR "${name} ${version} is not here, and the build is told to fetch nothing. Run: tools/deps")
    endif()
    message(STATUS "Fetching ${name} ${version}")
    # Downloaded here rather than by FetchContent, whose message on a failure names no way out.
    file(DOWNLOAD "${url}" "${archive}.part" STATUS status INACTIVITY_TIMEOUT 30)
    list(GET status 0 code)
    if(NOT code EQUAL 0)
      list(GET status 1 reason)
      file(REMOVE "${archive}.part")
      message(FATAL_ERROR "${name} ${version} could not be fetched from ${url} (${reason}).\n"
        "Run tools/deps, which brings it by way of package registries, and configure again.")
    endif()
    file(RENAME "${archive}.part" "${archive}")
  endif()
  # A folder without CMakeLists.txt: the library is only unpacked here, and added below in our own way.
  FetchContent_Declare(${name} URL "${archive}" URL_HASH SHA256=${sha256} DOWNLOAD_EXTRACT_TIMESTAMP ON
                       SOURCE_SUBDIR unpack-only)
  FetchContent_MakeAvailable(${name})
  set(${name}_SOURCE_DIR "${${name}_SOURCE_DIR}" PARENT_SCOPE)
  set(${name}_PINNED_VERSION "${version}" PARENT_SCOPE)
endfunction()

# Builds a library as a part of this build: only what is linked, its headers as system headers, its messages unheard.
macro(sluice_add_dependency name)
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
  add_subdirectory("${${name}_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/_deps/${name}" EXCLUDE_FROM_ALL SYSTEM)
  unset(CMAKE_MESSAGE_LOG_LEVEL)
endmacro()

function(sluice_use_system name result)
  string(TOUPPER ${name} upper)
  if(SLUICE_SYSTEM_DEPS STREQUAL "auto" AND NOT FETCHCONTENT_SOURCE_DIR_${upper} AND NOT SLUICE_DEPS_${upper})
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

# Reads the number after a macro's name in a header; 0 where there is none.
function(sluice_header_number file macro result)
  set(${result} 0 PARENT_SCOPE)
  if(file AND EXISTS "${file}")
    file(STRINGS "${file}" lines REGEX "define ${macro} ")
    if(lines MATCHES "${macro} +([0-9]+)")
      set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
    endif()
  endif()
endfunction()

if(SLUICE_BUILD_PROXY)
  include("${CMAKE_CURRENT_LIST_DIR}/deps/liburing.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/deps/abseil.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/deps/boringssl.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/deps/c-ares.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/deps/compression.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/deps/llhttp.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/deps/nghttp2.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/deps/protobuf.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/deps/re2.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/deps/crypt.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/deps/yaml-cpp.cmake")
endif()
if(SLUICE_BUILD_TESTS)
  include("${CMAKE_CURRENT_LIST_DIR}/deps/googletest.cmake")
endif()
if(SLUICE_BUILD_BENCH)
  include("${CMAKE_CURRENT_LIST_DIR}/deps/benchmark.cmake")
endif()
