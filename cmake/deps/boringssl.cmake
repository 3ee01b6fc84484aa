# Gives the targets ssl and crypto. Never the system's: BoringSSL promises no stable interface, and the record layer uses
# its AEAD calls on scattered memory, which other libraries of that name do not have.
sluice_source(boringssl 0.20260526.0
  https://github.com/google/boringssl/releases/download/0.20260526.0/boringssl-0.20260526.0.tar.gz
  6c94f115372978f4505df8280522111c03f2ec4efbdf2dcc713cb8cf1fa9aaab)

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
