# Makes a C++ file whose function gives the text of a file:
#
#   cmake -DINPUT=page.html -DOUTPUT=page.cc -DHEADER=proxy/admin/browser_page.h -DFUNCTION=browser_page
#     -DNAMESPACE=sluice -P EmbedText.cmake

file(READ "${INPUT}" text)
set(delimiter "embedded_text")
string(FIND "${text}" ")${delimiter}\"" at)
if(NOT at EQUAL -1)
  message(FATAL_ERROR "${INPUT}: `)${delimiter}\"` ends the literal that holds the text; write it otherwise")
endif()
get_filename_component(name "${INPUT}" NAME)
file(WRITE "${OUTPUT}" "// Made from ${name} by cmake/EmbedText.cmake.

#include \"${HEADER}\"

namespace ${NAMESPACE} {

// Whatever the build folder: profiles of one build serve in another (ProfileGuided.cmake).
#line 1 \"${name}\"
std::string_view ${FUNCTION}() {
  return R\"${delimiter}(${text})${delimiter}\";
}

}  // namespace ${NAMESPACE}
")
