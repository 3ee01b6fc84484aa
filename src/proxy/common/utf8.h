#pragma once

#include <cstddef>
#include <string_view>

namespace sluice {

/// The size of the first character of a text that is not empty; 0 if it is not valid UTF-8 (RFC 3629 section 4).
size_t utf8_bytes(std::string_view text);

/// The longest beginning of a text that has at most `max` bytes and does not end within a character.
std::string_view utf8_beginning(std::string_view text, size_t max);

}  // namespace sluice
