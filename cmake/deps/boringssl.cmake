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
# What a compiler warns of depends on its version and the optimization, and the library makes errors of it.
foreach(library crypto fipsmodule ssl)
  target_compile_options(${library} PRIVATE -w -g0)
endforeach()
foreach(library crypto ssl)
  set_target_properties(${library} PROPERTIES UNITY_BUILD ${SLUICE_UNITY} UNITY_BUILD_BATCH_SIZE 16)
endforeach()
# These do not go together with others: they define what others define too, or macros that change a header.
set(sources "")
foreach(file crypto/dsa/dsa crypto/dsa/dsa_asn1 crypto/ecdsa/ecdsa_asn1 crypto/err/err crypto/evp/p_mlkem crypto/hrss/hrss
    crypto/kyber/kyber crypto/pkcs8/pkcs8_x509 crypto/thread_pthread crypto/thread_win crypto/trust_token/voprf
    ssl/handshake_server ssl/ssl_session ssl/tls13_server)
  list(APPEND sources "${boringssl_SOURCE_DIR}/${file}.cc")
endforeach()
set_source_files_properties(${sources} TARGET_DIRECTORY crypto ssl PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
