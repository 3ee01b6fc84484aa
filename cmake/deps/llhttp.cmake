# Gives the target llhttp: the generated C of its release, which has no dependencies. From 9.3 on it has all that the
# HTTP/1.1 codec asks for.
sluice_use_system(llhttp use_system)
if(use_system)
  find_path(LLHTTP_INCLUDE_DIR llhttp.h)
  find_library(LLHTTP_LIBRARY llhttp)
  set(header "${LLHTTP_INCLUDE_DIR}/llhttp.h")
  sluice_header_number("${header}" LLHTTP_VERSION_MAJOR major)
  sluice_header_number("${header}" LLHTTP_VERSION_MINOR minor)
  if(LLHTTP_LIBRARY AND "${major}.${minor}" VERSION_GREATER_EQUAL 9.3)
    message(STATUS "llhttp ${major}.${minor}: the system's")
    add_library(llhttp INTERFACE)
    target_include_directories(llhttp SYSTEM INTERFACE "${LLHTTP_INCLUDE_DIR}")
    target_link_libraries(llhttp INTERFACE "${LLHTTP_LIBRARY}")
    return()
  endif()
endif()

sluice_source(llhttp 9.4.3 https://github.com/nodejs/llhttp/archive/refs/tags/release/v9.4.3.tar.gz
  1eb813c7437b31a87496a1cd3ed79f00746720f5e7e29c79b42c02cb69f36c39)

set(sources api.c http.c llhttp.c)
list(TRANSFORM sources PREPEND "${llhttp_SOURCE_DIR}/src/")
add_library(llhttp STATIC EXCLUDE_FROM_ALL ${sources})
target_compile_options(llhttp PRIVATE -w)
target_include_directories(llhttp SYSTEM PUBLIC "${llhttp_SOURCE_DIR}/include")
