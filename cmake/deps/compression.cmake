# Gives sluice_compression: zlib, and the encoders of Brotli and zstd; and for tests sluice_decompression, with Brotli's
# decoder. Stable and everywhere, so only the system's are used.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(SLUICE_COMPRESSION QUIET IMPORTED_TARGET GLOBAL zlib>=1.2.11 libbrotlienc>=1.0 libzstd>=1.4)
  pkg_check_modules(SLUICE_DECOMPRESSION QUIET IMPORTED_TARGET GLOBAL libbrotlidec>=1.0)
endif()
if(NOT SLUICE_COMPRESSION_FOUND OR NOT SLUICE_DECOMPRESSION_FOUND)
  message(FATAL_ERROR "zlib, libbrotli or libzstd 1.4 or later is missing. Run: tools/deps "
    "(or: apt-get install pkg-config zlib1g-dev libbrotli-dev libzstd-dev)")
endif()
add_library(sluice_compression INTERFACE)
target_link_libraries(sluice_compression INTERFACE PkgConfig::SLUICE_COMPRESSION)
add_library(sluice_decompression INTERFACE)
target_link_libraries(sluice_decompression INTERFACE sluice_compression PkgConfig::SLUICE_DECOMPRESSION)
