#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// SipHash-2-4 (Aumasson and Bernstein, 2012) of whole words, as BoringSSL's SIPHASH_24 computes it of their bytes on a
/// little-endian machine. Inline, as the calls of that one take most of its time with keys as short as an address.
inline uint64_t siphash_24(const uint64_t key[2], std::span<const uint64_t> words) {
  uint64_t v0 = key[0] ^ 0x736f6d6570736575, v1 = key[1] ^ 0x646f72616e646f6d;
  uint64_t v2 = key[0] ^ 0x6c7967656e657261, v3 = key[1] ^ 0x7465646279746573;
  const auto round = [&] {
    v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
    v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
  };
  const auto absorb = [&](uint64_t word) {
    v3 ^= word;
    round(), round();
    v0 ^= word;
  };
  for (const uint64_t word : words) absorb(word);
  absorb(uint64_t{words.size_bytes()} << 56);  // The last block: no bytes are left, and the length modulo 256.
  v2 ^= 0xff;
  round(), round(), round(), round();
  return v0 ^ v1 ^ v2 ^ v3;
}

}  // namespace sluice
