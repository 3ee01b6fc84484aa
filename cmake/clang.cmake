# Toolchain file of the presets that need clang: the newest one that is installed.
find_program(CLANG_CXX NAMES clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++)
if(NOT CLANG_CXX)
  message(FATAL_ERROR "clang 16 or later is missing. Run: tools/deps")
endif()
string(REPLACE "clang++" "clang" CLANG_C "${CLANG_CXX}")
set(CMAKE_C_COMPILER "${CLANG_C}")
set(CMAKE_CXX_COMPILER "${CLANG_CXX}")
