# What `cmake --install` puts where, in two components (Package.cmake has what comes with the program):
#   iobuf   the buffer library: headers, one archive, a CMake package (find_package(sluice)), a pkg-config file and printers
#           for gdb
#   proxy   the sluice program, where it is built
# All of it may be moved afterwards: nothing that is installed holds an absolute path.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The archive is compiled for itself. Without link-time optimization, since only the compiler that wrote such objects
# can read them; and as position-independent code, so that it can become a part of a shared library.
set(sources "")
foreach(layer pool buffer)
  get_target_property(layer_sources sluice_${layer} SOURCES)
  list(APPEND sources ${layer_sources})
endforeach()
add_library(sluice_iobuf_archive STATIC ${sources})
target_include_directories(sluice_iobuf_archive
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_compile_features(sluice_iobuf_archive PUBLIC cxx_std_20)
target_link_libraries(sluice_iobuf_archive PUBLIC Threads::Threads)
target_compile_definitions(sluice_iobuf_archive PRIVATE $<TARGET_PROPERTY:sluice_pool,INTERFACE_COMPILE_DEFINITIONS>)
target_link_libraries(sluice_iobuf_archive PRIVATE $<BUILD_INTERFACE:sluice_warnings>)
set_target_properties(sluice_iobuf_archive PROPERTIES OUTPUT_NAME sluice_iobuf EXPORT_NAME iobuf
  POSITION_INDEPENDENT_CODE ON)
# gdb loads the printers from the program that is linked with the archive: an archive has no name there that a file beside it
# could have. The section takes no memory in a running program, and `strip` removes it.
set(printers "${PROJECT_SOURCE_DIR}/tools/gdb/sluice_gdb.py")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${printers}")
file(READ "${printers}" bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE ",(\n|$)" "\n" bytes "${bytes}")
string(STRIP "${bytes}" bytes)
string(REPLACE "\n" "\n  .byte " bytes "${bytes}")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/install/gdb_printers.inc" @ONLY CONTENT [=[
// A script in the program (gdb's manual, "The .debug_gdb_scripts section"): 4, a name, the text, 0.
asm(R"(
  .pushsection ".debug_gdb_scripts", "MS", %progbits, 1
  .byte 4
  .ascii "gdb.inlined-sluice-iobuf\n"
  .byte @bytes@
  .byte 0
  .popsection
)");
]=])
# In a file that every program has that uses the library. The others have no option that names the build folder, so that ccache
# finds them.
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/pool/chunk_pool.cc" TARGET_DIRECTORY sluice_iobuf_archive PROPERTIES
  OBJECT_DEPENDS "${PROJECT_BINARY_DIR}/install/gdb_printers.inc"
  INCLUDE_DIRECTORIES "${PROJECT_BINARY_DIR}/install"
  COMPILE_DEFINITIONS "SLUICE_GDB_PRINTERS=\"gdb_printers.inc\"")
unset(bytes)
install(FILES "${printers}" DESTINATION "${CMAKE_INSTALL_DATADIR}/sluice/gdb" COMPONENT iobuf)
# The layers' own archives are made only for what is linked with them.
set_target_properties(sluice_pool sluice_buffer PROPERTIES EXCLUDE_FROM_ALL ON)

set(package "${CMAKE_INSTALL_LIBDIR}/cmake/sluice")
install(TARGETS sluice_iobuf_archive EXPORT sluice-targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT iobuf)
install(EXPORT sluice-targets NAMESPACE sluice:: DESTINATION "${package}" COMPONENT iobuf)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT iobuf
  FILES_MATCHING PATTERN "*.h")

set(made "${PROJECT_BINARY_DIR}/install")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/sluice-config.cmake.in" "${made}/sluice-config.cmake"
  INSTALL_DESTINATION "${package}")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${made}/sluice-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${made}/sluice-config.cmake" "${made}/sluice-config-version.cmake"
  DESTINATION "${package}" COMPONENT iobuf)

file(RELATIVE_PATH headers_from_pc "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/sluice-iobuf.pc.in" "${made}/sluice-iobuf.pc" @ONLY)
install(FILES "${made}/sluice-iobuf.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT iobuf)

if(TARGET sluice)
  install(TARGETS sluice RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT proxy)
endif()
