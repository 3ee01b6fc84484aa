# Profile-guided optimization by gcc, of the program and what is linked into it (tools/pgo): SLUICE_PGO=generate counts at run
# time how often each branch is taken, in files of SLUICE_PGO_PROFILE; SLUICE_PGO=use optimizes by these counts.

if(SLUICE_PGO STREQUAL "")
  return()
endif()

# 12 brings -fprofile-prefix-path.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "SLUICE_PGO needs gcc 12 or newer, and the compiler is ${CMAKE_CXX_COMPILER_ID} "
                      "${CMAKE_CXX_COMPILER_VERSION}. Build without SLUICE_PGO, or set CMAKE_CXX_COMPILER and CMAKE_C_COMPILER.")
endif()
# Files of counts have the names of objects, which must not depend on the build folder.
add_compile_options("-fprofile-prefix-path=${PROJECT_BINARY_DIR}")
if(SLUICE_PGO STREQUAL "generate")
  # Atomic: helper threads count, too.
  add_compile_options("-fprofile-generate=${SLUICE_PGO_PROFILE}" -fprofile-update=atomic)
  add_link_options(-fprofile-generate)
elseif(SLUICE_PGO STREQUAL "use")
  file(GLOB counts LIST_DIRECTORIES FALSE "${SLUICE_PGO_PROFILE}/*.gcda")
  if(NOT counts)
    message(FATAL_ERROR "SLUICE_PGO_PROFILE is ${SLUICE_PGO_PROFILE}, which has no counts (*.gcda). Run tools/pgo, which makes them.")
  endif()
  # Without partial training gcc optimizes for size whatever the training has not run.
  set(use "-fprofile-use=${SLUICE_PGO_PROFILE}" -fprofile-partial-training -Wno-missing-profile)
  add_compile_options(${use})
  add_link_options(${use}) # For what is compiled at link.
else()
  message(FATAL_ERROR "SLUICE_PGO is '${SLUICE_PGO}': it can be empty, generate, or use.")
endif()
