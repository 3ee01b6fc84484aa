// Checks texts sixteen characters at a time, in a register of the processor where it has such.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice {

using Characters [[gnu::vector_size(16)]] = unsigned char;

/// Whether `bad(Characters)`, a comparison of characters with others, is false for all of `text`. It sees some of them
/// twice.
template <class Bad>
[[gnu::always_inline]] inline bool has_none(std::string_view text, Bad bad) {
  const auto load = [&]<typename Word>(size_t at, Word word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    return word;
  };
  const auto fits = [&](Characters characters) {
    const auto [low, high] = std::bit_cast<std::array<uint64_t, 2>>(bad(characters));
    return (low | high) == 0;
  };
  const size_t size = text.size();
  if (size >= 16) {
    for (size_t at = 0; at + 16 < size; at += 16) {
      if (!fits(load(at, Characters()))) return false;
    }
    return fits(load(size - 16, Characters()));
  }
  std::array<uint64_t, 2> words;
  if (size >= 8) {
    words = {load(0, uint64_t()), load(size - 8, uint64_t())};
  } else if (size >= 4) {
    words.fill(uint64_t{load(size - 4, uint32_t())} << 32 | load(0, uint32_t()));
  } else if (size > 0) {
    const auto at = [&](size_t index) { return uint64_t{static_cast<uint8_t>(text[index])}; };
    words.fill(0x0101'0101'0101'0000 * at(0) | at(size / 2) << 8 | at(size - 1));
  } else {
    return true;
  }
  return fits(std::bit_cast<Characters>(words));
}

}  // namespace sluice
