# Gives the target liburing. 2.9 is the first version with all that src/net asks for.
sluice_use_system(liburing use_system)
if(use_system)
  find_path(LIBURING_INCLUDE_DIR liburing/io_uring_version.h)
  find_library(LIBURING_LIBRARY uring)
  set(header "${LIBURING_INCLUDE_DIR}/liburing/io_uring_version.h")
  sluice_header_number("${header}" IO_URING_VERSION_MAJOR major)
  sluice_header_number("${header}" IO_URING_VERSION_MINOR minor)
  if(LIBURING_LIBRARY AND "${major}.${minor}" VERSION_GREATER_EQUAL 2.9)
    message(STATUS "liburing ${major}.${minor}: the system's")
    add_library(liburing INTERFACE)
    target_include_directories(liburing SYSTEM INTERFACE "${LIBURING_INCLUDE_DIR}")
    target_link_libraries(liburing INTERFACE "${LIBURING_LIBRARY}")
    return()
  endif()
endif()

sluice_source(liburing 2.15 https://github.com/axboe/liburing/archive/refs/tags/liburing-2.15.tar.gz
  8d052f2622dcb3678cbaee5ff582a87572672a6c0a56533cdda5b65cb636120a)

# It has no CMake build. Its configure script writes into its own folder, so that runs in a copy, once per source
# and compiler.
set(build "${PROJECT_BINARY_DIR}/_deps/liburing")
set(key "${liburing_SOURCE_DIR} ${CMAKE_C_COMPILER} ${CMAKE_C_COMPILER_VERSION}")
set(done "")
if(EXISTS "${build}/configured")
  file(READ "${build}/configured" done)
endif()
if(NOT done STREQUAL key)
  file(REMOVE_RECURSE "${build}")
  file(REAL_PATH "${liburing_SOURCE_DIR}" source) # file(COPY) would copy a symlink as it is.
  file(COPY "${source}/" DESTINATION "${build}")
  execute_process(COMMAND sh ./configure --use-libc "--cc=${CMAKE_C_COMPILER}" "--cxx=${CMAKE_CXX_COMPILER}"
    WORKING_DIRECTORY "${build}" RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0 OR NOT EXISTS "${build}/config-host.h")
    message(FATAL_ERROR "liburing's configure script failed:\n${output}")
  endif()
  file(WRITE "${build}/configured" "${key}")
endif()

set(sources setup.c queue.c register.c syscall.c version.c)
list(TRANSFORM sources PREPEND "${build}/src/")
add_library(liburing STATIC EXCLUDE_FROM_ALL ${sources})
set_target_properties(liburing PROPERTIES OUTPUT_NAME uring C_EXTENSIONS ON)
target_compile_definitions(liburing PRIVATE _GNU_SOURCE LIBURING_INTERNAL)
target_compile_options(liburing PRIVATE -include "${build}/config-host.h" -w)
target_include_directories(liburing SYSTEM PUBLIC "${build}/src/include")
