#pragma once

#include <openssl/aead.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pool/chunk.h"

namespace sluice {

/// A cipher with its key: made when it is needed, dropped when the connection waits. It is wiped then.
class AeadContext {
 public:
  static constexpr size_t kTagBytes = 16;
  using Nonce = std::array<uint8_t, 12>;

  AeadContext() = default;
  ~AeadContext() { drop(); }
  AeadContext(const AeadContext&) = delete;
  AeadContext& operator=(const AeadContext&) = delete;

  /// Whether there is one.
  explicit operator bool() const { return held_ != nullptr; }
  /// Precondition: there is none. `iv` is kept for the caller, who makes the nonces and never uses one twice.
  void make(const EVP_AEAD* aead, std::span<const uint8_t> key, const Nonce& iv);
  void drop();

  /// Precondition of all below: there is one, and pieces.size() <= CRYPTO_IOVEC_MAX.
  const Nonce& iv() const { return held_->iv; }
  /// Opens `pieces` where they are. False: they, what was `authenticated` with them, or the tag is not what was sealed.
  bool open(std::span<const CRYPTO_IOVEC> pieces, const Nonce& nonce, std::span<const uint8_t> authenticated,
            std::span<const uint8_t> tag) const;
  /// Writes kTagBytes to `tag`.
  void seal(std::span<const CRYPTO_IOVEC> pieces, const Nonce& nonce, std::span<const uint8_t> authenticated,
            uint8_t* tag) const;

 private:
  struct Held {
    Chunk* chunk;  // That this lies in.
    bssl::ScopedEVP_AEAD_CTX aead;
    Nonce iv;
  };
  // In a chunk of the current pool, not on the heap: what a thousand connections need for a second would leave holes
  // between what they keep, of which the system never gets a page back.
  Held* held_ = nullptr;
};

}  // namespace sluice
