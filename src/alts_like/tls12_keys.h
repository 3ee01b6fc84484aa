#pragma once

#include <openssl/aead.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "alts_like/aead_context.h"
#include "alts_like/tls_records.h"

namespace sluice {

/// The authenticated encryption of TLS 1.2 (RFC 5288, RFC 7905).
enum class Tls12Cipher : uint8_t { kAes128Gcm = 1, kAes256Gcm = 2, kChaCha20Poly1305 = 3 };

/// One direction's keys as plain data: all that is needed to go on, here or elsewhere.
struct Tls12Secret {
  Tls12Cipher cipher = Tls12Cipher::kAes128Gcm;
  std::array<uint8_t, 32> key{};  ///< The first key_bytes() of it,
  std::array<uint8_t, 12> iv{};   ///< and iv_bytes() of this: what the handshake gives of a nonce.
  uint64_t sequence = 0;          ///< Of the next record.

  ~Tls12Secret();  ///< Wipes it.

  size_t key_bytes() const { return cipher == Tls12Cipher::kAes128Gcm ? 16 : 32; }
  size_t iv_bytes() const { return cipher == Tls12Cipher::kChaCha20Poly1305 ? 12 : 4; }
  /// The rest of a nonce, which every record says.
  size_t explicit_bytes() const { return 12 - iv_bytes(); }
};

/// One direction of a TLS 1.2 connection: the secret, and the cipher's context, which is made when it is needed and
/// dropped when the connection waits. Both are wiped.
class Tls12Keys {
 public:
  static constexpr size_t kTagBytes = AeadContext::kTagBytes;
  static constexpr size_t kMaxExplicitBytes = 8;

  explicit Tls12Keys(const Tls12Secret& secret) : secret_(secret) {}

  const Tls12Secret& secret() const { return secret_; }
  bool is_chacha() const { return secret_.cipher == Tls12Cipher::kChaCha20Poly1305; }
  size_t explicit_bytes() const { return secret_.explicit_bytes(); }

  /// TLS 1.2 has no way to renew keys: behind the last number the connection is over.
  bool exhausted() const { return secret_.sequence == UINT64_MAX; }
  /// The part of the next nonce that our record says: its number, which never comes again (RFC 5288 section 3).
  std::array<uint8_t, kMaxExplicitBytes> next_explicit() const;

  /// Opens / seals one record of this type and counts it. `explicit_nonce`: what the record says, explicit_bytes().
  /// False: the record is not authentic. Precondition: pieces.size() <= CRYPTO_IOVEC_MAX, not exhausted().
  bool open(std::span<const CRYPTO_IOVEC> pieces, uint8_t type, std::span<const uint8_t> explicit_nonce,
            std::span<const uint8_t> tag);
  void seal(std::span<const CRYPTO_IOVEC> pieces, uint8_t type, uint8_t* tag);

  /// Drops what open or seal make again from the secret.
  void park() { context_.drop(); }

 private:
  // What is beside the content of the next record, which it counts.
  struct Beside {
    AeadContext::Nonce nonce;
    std::array<uint8_t, 13> authenticated;
  };
  Beside next(std::span<const CRYPTO_IOVEC> pieces, uint8_t type, std::span<const uint8_t> explicit_nonce);

  Tls12Secret secret_;
  AeadContext context_;
};

}  // namespace sluice
