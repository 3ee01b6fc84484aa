#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace sluice {

/// Of the two alphabets of base64 (RFC 4648 sections 4 and 5).
enum class Base64 {
  kPadded,  ///< `+`, `/`, with `=` up to a multiple of four.
  kUrl,     ///< `-`, `_`, and no `=` (RFC 7515 section 2).
};

/// What `text` stands for, in `room`, which has at least 3 bytes for each 4 of the text. Nothing where it is malformed:
/// another character, a wrong length, or bits at the end that are not zero, so that each value has one text.
std::optional<std::span<const unsigned char>> decode_base64(Base64 kind, std::string_view text,
                                                            std::span<unsigned char> room);

/// The room that a text of `size` characters needs.
constexpr size_t base64_room(size_t size) { return size / 4 * 3 + 3; }

}  // namespace sluice
