# Gives protobuf::libprotobuf-lite and protobuf::protoc. Stable and everywhere, so only the system's is used.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
find_package(Protobuf 3.12 QUIET)
unset(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)
if(NOT Protobuf_FOUND OR NOT TARGET protobuf::libprotobuf-lite OR NOT TARGET protobuf::protoc)
  message(FATAL_ERROR "protobuf 3.12 or later is missing. Run: tools/deps "
    "(or: apt-get install libprotobuf-dev protobuf-compiler)")
endif()
