#pragma once

#include <openssl/siphash.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

/// A hash that is the same in every process and version, so that all of them choose the same endpoints. SipHash-2-4
/// with a key that is not secret; `use` separates independent uses.
inline uint64_t stable_hash(std::span<const uint8_t> bytes, uint64_t use = 0) {
  const uint64_t key[2] = {0x736c756963652e31, use};
  return SIPHASH_24(key, bytes.data(), bytes.size());
}

inline uint64_t stable_hash(std::string_view text, uint64_t use = 0) {
  return stable_hash({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, use);
}

/// Mixes a hash so that each bit of the result depends on all of its bits: the finalizer of MurmurHash3.
inline constexpr uint64_t mixed(uint64_t hash) {
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccd;
  hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53;
  return hash ^ hash >> 33;
}

}  // namespace sluice
