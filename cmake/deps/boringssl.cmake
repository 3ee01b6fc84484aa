# Gives the targets ssl and crypto. Never the system's: BoringSSL promises no stable interface, and the record layer uses
# its AEAD calls on scattered memory, which other libraries of that name do not have.
sluice_source(boringssl)

set(tests ${BUILD_TESTING})
set(shared ${BUILD_SHARED_LIBS})
set(BUILD_TESTING OFF)
set(BUILD_SHARED_LIBS OFF)
sluice_add_dependency(boringssl)
set(BUILD_TESTING ${tests})
set(BUILD_SHARED_LIBS ${shared})
foreach(library crypto ssl)
  target_compile_options(${library} PRIVATE -w -g0)
endforeach()
