#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace sluice {

/// The two alphabets of base64 (RFC 4648 sections 4 and 5).
enum class Base64 {
  kPadded,  ///< Uses `+` and `/`, and pads with `=` to a multiple of four characters.
  kUrl,     ///< Uses `-` and `_`, and has no padding (RFC 7515 section 2).
};

/// Decodes `text` into `room` and returns the decoded bytes, a view of `room`. Precondition: `room` has 3 bytes for
/// each 4 characters of the text, rounded up; see base64_room(). Returns nullopt if the text is malformed: it has a
/// character outside the alphabet, a wrong length, or trailing bits that are not zero. The last rule gives each value
/// exactly one encoding.
std::optional<std::span<const unsigned char>> decode_base64(Base64 kind, std::string_view text,
                                                            std::span<unsigned char> room);

/// The size of a buffer that is large enough to decode `size` characters.
constexpr size_t base64_room(size_t size) { return size / 4 * 3 + 3; }

}  // namespace sluice
