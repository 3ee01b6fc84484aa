# Gives crypt::crypt: crypt_r of libxcrypt, which knows bcrypt and yescrypt. Only the system's is used.
find_path(CRYPT_INCLUDE_DIR crypt.h)
find_library(CRYPT_LIBRARY crypt)
mark_as_advanced(CRYPT_INCLUDE_DIR CRYPT_LIBRARY)
if(NOT CRYPT_INCLUDE_DIR OR NOT CRYPT_LIBRARY)
  message(FATAL_ERROR "libcrypt is missing. Run: tools/deps (or: apt-get install libcrypt-dev)")
endif()
if(NOT TARGET crypt::crypt)
  add_library(crypt::crypt UNKNOWN IMPORTED GLOBAL)
  set_target_properties(crypt::crypt PROPERTIES IMPORTED_LOCATION "${CRYPT_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CRYPT_INCLUDE_DIR}")
endif()
