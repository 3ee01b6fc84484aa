#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sluice {

/// Room for the characters of a string of this many coded bytes: the shortest code has five bits, and two characters
/// are written at once.
constexpr size_t huffman_room(size_t coded_bytes) { return coded_bytes * 8 / 5 + 1; }
/// The fewest: the longest code has 30 bits.
constexpr size_t huffman_fewest_chars(size_t coded_bytes) { return coded_bytes * 8 / 30; }

/// Decodes a string in HPACK's Huffman code (RFC 7541 section 5.2 and appendix B) to `to`, which has room for
/// huffman_room(). Returns the number of characters; nothing if the string contains EOS, or ends in other bits
/// than the first of EOS, fewer than eight.
std::optional<size_t> huffman_decode(std::span<const uint8_t> coded, char* to);

/// The bytes that a string takes in this code.
size_t huffman_size(std::string_view text);
/// Writes them to `to`; returns what follows them.
std::byte* huffman_encode(std::string_view text, std::byte* to);

}  // namespace sluice
