#pragma once

#include <string_view>

namespace sluice {

/// Whether `text` is a pattern of media types: `text/html`, `text/*`, `application/*+json`.
bool is_media_type_pattern(std::string_view text);

/// Whether a Content-Type (RFC 9110 section 8.3.1) is of a pattern's types; its parameters do not count, nor the case
/// of letters. Precondition: the pattern is one, in lower case.
bool fits_media_type(std::string_view pattern, std::string_view content_type);

}  // namespace sluice
