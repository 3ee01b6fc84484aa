#pragma once

#include <string_view>

namespace sluice {

/// Whether `text` is a pattern of media types: `text/html`, `text/*`, `application/*+json`.
bool is_media_type_pattern(std::string_view text);

/// Whether a Content-Type (RFC 9110 section 8.3.1) matches a pattern. Parameters and case are ignored. Precondition:
/// is_media_type_pattern(pattern), and `pattern` is in lower case.
bool fits_media_type(std::string_view pattern, std::string_view content_type);

}  // namespace sluice
