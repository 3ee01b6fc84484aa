#pragma once

#include <openssl/aead.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice/chunk.h"

namespace sluice {

/// A cipher context with its key. It is made when it is needed, and dropped and wiped while the connection is idle.
class AeadContext {
 public:
  static constexpr size_t kTagBytes = 16;
  using Nonce = std::array<uint8_t, 12>;

  AeadContext() = default;
  ~AeadContext() { drop(); }
  AeadContext(const AeadContext&) = delete;
  AeadContext& operator=(const AeadContext&) = delete;

  /// Whether a context is held.
  explicit operator bool() const { return held_ != nullptr; }
  /// Makes the context. `iv` is kept for the caller, who makes the nonces and must never use one twice. Precondition:
  /// no context is held.
  void make(const EVP_AEAD* aead, std::span<const uint8_t> key, const Nonce& iv);
  void drop();

  /// Precondition of this and all methods below: a context is held, and pieces.size() <= CRYPTO_IOVEC_MAX.
  const Nonce& iv() const { return held_->iv; }
  /// Opens `pieces` in place. False: `pieces`, `authenticated` or `tag` is not what was sealed.
  bool open(std::span<const CRYPTO_IOVEC> pieces, const Nonce& nonce, std::span<const uint8_t> authenticated,
            std::span<const uint8_t> tag) const;
  /// Seals `pieces` and writes kTagBytes to `tag`.
  void seal(std::span<const CRYPTO_IOVEC> pieces, const Nonce& nonce, std::span<const uint8_t> authenticated,
            uint8_t* tag) const;

 private:
  struct Held {
    Chunk* chunk;  // The chunk that this struct lies in.
    bssl::ScopedEVP_AEAD_CTX aead;
    Nonce iv;
  };
  // Lies in a chunk of the current pool, not on the heap. On the heap, contexts that a thousand connections need for a
  // second would leave holes between their longer-lived objects, and no page would ever go back to the system.
  Held* held_ = nullptr;
};

}  // namespace sluice
