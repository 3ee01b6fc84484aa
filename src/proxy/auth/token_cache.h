#pragma once

#include <openssl/sha.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A digest that identifies a secret without revealing it.
using SecretDigest = std::array<uint8_t, SHA256_DIGEST_LENGTH>;

inline SecretDigest digest_of(std::string_view secret) {
  SecretDigest digest;
  SHA256(reinterpret_cast<const uint8_t*>(secret.data()), secret.size(), digest.data());
  return digest;
}

/// A cache of recently accepted tokens of one worker, so that a client's next request does not cost another signature
/// check (0.3 us for a digest instead of 16 to 50 us). Bounded: a token replaces the one in its slot.
class TokenCache {
 public:
  static constexpr size_t kSlots = 2048;

  struct Slot {
    SecretDigest digest{};
    int64_t good_until_s = 0;         ///< 0: the slot is empty.
    std::string subject;              ///< Of the token; empty if it has none.
    std::vector<std::string> values;  ///< One for each of config::JwtAuth::claims; empty ones are not forwarded.
  };

  /// Null if the token is not cached or has expired.
  const Slot* find(const SecretDigest& digest, int64_t now_s) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[index_of(digest)];
    return slot.good_until_s > now_s && slot.digest == digest ? &slot : nullptr;
  }
  /// Returns the slot for a token, with its digest and expiry set. The caller must overwrite the values, which are
  /// those of another token.
  Slot& put(const SecretDigest& digest, int64_t good_until_s) {
    if (slots_.empty()) slots_.resize(kSlots);
    Slot& slot = slots_[index_of(digest)];
    slot.digest = digest;
    slot.good_until_s = good_until_s;
    return slot;
  }
  void clear() { slots_.clear(); }

 private:
  static size_t index_of(const SecretDigest& digest) {
    uint32_t index = 0;
    std::memcpy(&index, digest.data(), sizeof index);
    return index % kSlots;
  }

  std::vector<Slot> slots_;
};

}  // namespace sluice
