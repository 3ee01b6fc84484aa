# The same bytes wherever the build runs: no object, archive or program contains the place of its sources, of the build folder or of the
# dependencies, or a random number. tools/check-reproducible compares two builds, and test/e2e/reproducible_test.py looks at one.
# Debug and sanitizer builds keep absolute paths, which debuggers find from any folder.

if(PROJECT_IS_TOP_LEVEL AND NOT SLUICE_SANITIZE)
  # Sources are `./src/...`, so gdb finds them from the root of the tree. gcc takes the last option that fits, so the longest
  # paths come last. The relative one is what ccache makes of the root (tools/build).
  file(RELATIVE_PATH root_from_build "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
  string(REGEX REPLACE "/$" "" root_from_build "${root_from_build}")
  file(REAL_PATH "${SLUICE_DEPS_DIR}" deps_real) # It may be a link.
  set(maps "")
  if(root_from_build)
    list(APPEND maps "-ffile-prefix-map=${root_from_build}=.")
  endif()
  list(APPEND maps "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=." "-ffile-prefix-map=${deps_real}=./.deps"
    "-ffile-prefix-map=${SLUICE_DEPS_DIR}=./.deps" "-ffile-prefix-map=${PROJECT_BINARY_DIR}=."
    "-ffile-prefix-map=${PROJECT_BINARY_DIR}/=") # As ccache makes them relative.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # ccache takes away options, which gcc would write down.
    list(APPEND maps -gno-record-gcc-switches)
  endif()
  add_compile_options("$<$<NOT:$<CONFIG:Debug>>:${maps}>")
  add_link_options("$<$<NOT:$<CONFIG:Debug>>:${maps}>") # For what is compiled at link.

  foreach(language C CXX)
    if(CMAKE_${language}_COMPILER_ID STREQUAL "GNU")
      # Otherwise gcc draws a number for names that have to be unique in the program.
      string(REPLACE "<FLAGS>" "<FLAGS> -frandom-seed=<OBJECT>" CMAKE_${language}_COMPILE_OBJECT "${CMAKE_${language}_COMPILE_OBJECT}")
    endif()
    # `D`: without times and owners, which not every ar leaves out by itself.
    string(REGEX REPLACE "<CMAKE_AR> (qc|cr) " "<CMAKE_AR> \\1D " CMAKE_${language}_ARCHIVE_CREATE
      "${CMAKE_${language}_ARCHIVE_CREATE}")
    string(REGEX REPLACE "<CMAKE_AR> (q|r) " "<CMAKE_AR> \\1D " CMAKE_${language}_ARCHIVE_APPEND
      "${CMAKE_${language}_ARCHIVE_APPEND}")
    string(REPLACE "<CMAKE_RANLIB> <TARGET>" "<CMAKE_RANLIB> -D <TARGET>" CMAKE_${language}_ARCHIVE_FINISH
      "${CMAKE_${language}_ARCHIVE_FINISH}")
  endforeach()
endif()
