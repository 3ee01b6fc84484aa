#pragma once

#include <string_view>

#include "proxy/http/h1/error.h"

namespace sluice::http1 {

/// A field line of a head or of trailers: RFC 9112 section 5.
struct FieldLine {
  std::string_view name;   ///< A token, in any case.
  std::string_view value;  ///< Field text without white space around it. May be empty.
};

/// Reads the first line of `section` into `line`, and removes it from `section`. Refuses all that two parsers could
/// read differently: white space before this line, before the next one, or before the colon, and control characters.
/// Precondition: `section` begins with a complete line that is not empty and ends with CR LF, as HeadScan has verified.
Error take_field_line(std::string_view& section, FieldLine& line);

}  // namespace sluice::http1
