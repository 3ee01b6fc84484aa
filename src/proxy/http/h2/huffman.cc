#include "proxy/http/h2/huffman.h"

#include <array>
#include <cstring>

namespace sluice {
namespace {

constexpr unsigned kSymbols = 257;  // The last is EOS.
constexpr unsigned kEos = 256;
constexpr unsigned kLongest = 30;
// Codes of at most this size are found by one look at a table: those of all letters, digits and the usual signs. Two
// that fit together, as most of those of letters and digits do, are found at once.
constexpr unsigned kQuickBits = 12;

// The size of each symbol's code in bits, of RFC 7541 appendix B. The codes follow from these, since the code is
// canonical: in the order of their sizes and then of their symbols, each is the one before plus one.
constexpr std::array<uint8_t, kSymbols> kSizes = {
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6,  10, 10, 12, 13, 6,  8,  11, 10, 10, 8,  11, 8,  6,  6,  6,  5,  5,  5,  6,  6,  6,  6,  6,  6,  6,
    7,  8,  15, 6,  12, 10, 13, 6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
    7,  8,  7,  8,  13, 19, 13, 14, 6,  15, 5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,  6,  7,  6,  5,
    5,  6,  7,  7,  7,  7,  7,  15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24,
    24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22,
    23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26,
    27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23,
    22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30};

struct Code {
  struct Quick {
    std::array<char, 2> symbols{};
    uint8_t first_size = 0;  // Bits of the first symbol's code. 0: it is longer than kQuickBits.
    uint8_t size = 0;        // Bits of the codes of both symbols. As first_size if the second one does not fit.
  };
  std::array<Quick, 1u << kQuickBits> quick{};
  std::array<uint16_t, kSymbols> symbols{};      // In the order of their codes.
  std::array<uint32_t, kLongest + 1> first{};    // The first code of each size, at the top of kLongest bits.
  std::array<uint32_t, kLongest + 1> beyond{};   // The first code behind those of each size, in the same form.
  std::array<uint16_t, kLongest + 1> indices{};  // Where the symbols of each size begin.
  std::array<uint32_t, kSymbols> codes{};        // Of each symbol.
};

constexpr Code make_code() {
  Code made;
  uint32_t code = 0;  // At the top of kLongest bits.
  unsigned index = 0;
  for (unsigned size = 1; size <= kLongest; ++size) {
    made.first[size] = code;
    made.indices[size] = static_cast<uint16_t>(index);
    for (unsigned symbol = 0; symbol < kSymbols; ++symbol) {
      if (kSizes[symbol] != size) continue;
      made.symbols[index++] = static_cast<uint16_t>(symbol);
      const uint32_t step = uint32_t{1} << (kLongest - size);
      made.codes[symbol] = code >> (kLongest - size);
      for (uint32_t at = code >> (kLongest - kQuickBits);
           size <= kQuickBits && at < (code + step) >> (kLongest - kQuickBits); ++at) {
        made.quick[at] = {{static_cast<char>(symbol)}, static_cast<uint8_t>(size), static_cast<uint8_t>(size)};
      }
      code += step;
    }
    made.beyond[size] = code;
  }
  for (uint32_t at = 0; at < made.quick.size(); ++at) {
    Code::Quick& first = made.quick[at];
    // The second code begins with the bits behind the first one. Further bits are unknown, and zeros here.
    const Code::Quick& second = made.quick[at << first.first_size & (made.quick.size() - 1)];
    if (first.first_size == 0 || second.first_size == 0 || first.first_size + second.first_size > kQuickBits) continue;
    first.symbols[1] = second.symbols[0];
    first.size = static_cast<uint8_t>(first.first_size + second.first_size);
  }
  return made;
}

constexpr Code kCode = make_code();
static_assert(kCode.beyond[kLongest] == uint32_t{1} << kLongest, "the code is complete");

uint64_t big_endian_at(const uint8_t* at) {
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word = word << 8 | at[i];
  return word;
}

}  // namespace

std::optional<size_t> huffman_decode(std::span<const uint8_t> coded, char* to) {
  const char* const begin = to;
  const uint8_t* at = coded.data();
  const uint8_t* const end = at + coded.size();
  uint64_t bits = 0;   // The next ones, from the top; zeros behind them.
  unsigned count = 0;  // How many of them are there.
  while (true) {
    if (count < kLongest) {
      if (end - at >= 8) {  // A byte that fits in part is not counted. The next load sets the same bits.
        bits |= big_endian_at(at) >> count;
        at += (63 - count) / 8;
        count += (63 - count) / 8 * 8;
      } else {
        for (; count <= 56 && at != end; count += 8) bits |= uint64_t{*at++} << (56 - count);
      }
    }
    const Code::Quick quick = kCode.quick[bits >> (64 - kQuickBits)];
    unsigned size = quick.size;
    if (size == 0) {
      const auto code = static_cast<uint32_t>(bits >> (64 - kLongest));
      size = kQuickBits + 1;
      while (code >= kCode.beyond[size]) ++size;
      if (size > count) break;
      const uint16_t symbol = kCode.symbols[kCode.indices[size] + ((code - kCode.first[size]) >> (kLongest - size))];
      if (symbol == kEos) return std::nullopt;
      *to++ = static_cast<char>(symbol);
    } else if (size <= count) {
      std::memcpy(to, quick.symbols.data(), quick.symbols.size());
      to += size == quick.first_size ? 1 : 2;
    } else {
      size = quick.first_size;
      if (size > count) break;
      *to++ = quick.symbols[0];
    }
    bits <<= size;
    count -= size;
  }
  // The rest is padding: the first bits of EOS, which are ones.
  if (count >= 8 || bits != ~(~uint64_t{0} >> count)) return std::nullopt;
  return static_cast<size_t>(to - begin);
}

size_t huffman_size(std::string_view text) {
  size_t bits = 0;
  for (const char c : text) bits += kSizes[static_cast<uint8_t>(c)];
  return (bits + 7) / 8;
}

std::byte* huffman_encode(std::string_view text, std::byte* to) {
  uint64_t bits = 0;   // At the bottom: those that are not written yet, behind others that are.
  unsigned count = 0;  // How many are not.
  for (const char c : text) {
    const auto symbol = static_cast<uint8_t>(c);
    bits = bits << kSizes[symbol] | kCode.codes[symbol];
    count += kSizes[symbol];
    if (count < 32) continue;
    count -= 32;
    const auto word = static_cast<uint32_t>(bits >> count);
    for (unsigned shift = 32; shift > 0; shift -= 8) *to++ = static_cast<std::byte>(word >> (shift - 8));
  }
  // Padding is the first bits of EOS, which are ones.
  const unsigned padding = (8 - count % 8) % 8;
  bits = bits << padding | ((1u << padding) - 1);
  for (count += padding; count > 0; count -= 8) *to++ = static_cast<std::byte>(bits >> (count - 8));
  return to;
}

}  // namespace sluice
