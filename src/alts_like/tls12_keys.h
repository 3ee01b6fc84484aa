#pragma once

#include <openssl/aead.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "alts_like/aead_context.h"
#include "alts_like/tls_records.h"

namespace sluice {

/// The AEAD ciphers of TLS 1.2 (RFC 5288, RFC 7905).
enum class Tls12Cipher : uint8_t { kAes128Gcm = 1, kAes256Gcm = 2, kChaCha20Poly1305 = 3 };

/// The keys of one direction as plain data: everything needed to resume, here or in another process.
struct Tls12Secret {
  Tls12Cipher cipher = Tls12Cipher::kAes128Gcm;
  std::array<uint8_t, 32> key{};  ///< The first key_bytes() are used.
  std::array<uint8_t, 12> iv{};   ///< The first iv_bytes() are used: the nonce's part from the handshake.
  uint64_t sequence = 0;          ///< The number of the next record.

  ~Tls12Secret();  ///< Wipes the key and the IV.

  size_t key_bytes() const { return cipher == Tls12Cipher::kAes128Gcm ? 16 : 32; }
  size_t iv_bytes() const { return cipher == Tls12Cipher::kChaCha20Poly1305 ? 12 : 4; }
  /// The size of the nonce's other part, which each record carries.
  size_t explicit_bytes() const { return 12 - iv_bytes(); }
};

/// One direction of a TLS 1.2 connection: the secret, and the cipher context, which is made when it is needed and
/// dropped while the connection is idle. Both are wiped.
class Tls12Keys {
 public:
  static constexpr size_t kTagBytes = AeadContext::kTagBytes;
  static constexpr size_t kMaxExplicitBytes = 8;

  explicit Tls12Keys(const Tls12Secret& secret) : secret_(secret) {}

  const Tls12Secret& secret() const { return secret_; }
  bool is_chacha() const { return secret_.cipher == Tls12Cipher::kChaCha20Poly1305; }
  size_t explicit_bytes() const { return secret_.explicit_bytes(); }

  /// Whether all sequence numbers have been used. TLS 1.2 cannot renew keys, so the connection is then over.
  bool exhausted() const { return secret_.sequence == UINT64_MAX; }
  /// The part of the next nonce that our record carries: its sequence number, which is unique (RFC 5288 section 3).
  std::array<uint8_t, kMaxExplicitBytes> next_explicit() const;

  /// Opens or seals one record of this type and counts it. `explicit_nonce`: the explicit_bytes() that the record
  /// carries. False: the record is not authentic. Precondition: pieces.size() <= CRYPTO_IOVEC_MAX, not exhausted().
  bool open(std::span<const CRYPTO_IOVEC> pieces, uint8_t type, std::span<const uint8_t> explicit_nonce,
            std::span<const uint8_t> tag);
  void seal(std::span<const CRYPTO_IOVEC> pieces, uint8_t type, uint8_t* tag);

  /// Drops the cipher context. The next open or seal makes it from the secret.
  void park() { context_.drop(); }

 private:
  // The cipher's inputs for one record besides its content.
  struct AeadInputs {
    AeadContext::Nonce nonce;
    std::array<uint8_t, 13> authenticated;
  };
  AeadInputs next(std::span<const CRYPTO_IOVEC> pieces, uint8_t type, std::span<const uint8_t> explicit_nonce);

  Tls12Secret secret_;
  AeadContext context_;
};

}  // namespace sluice
