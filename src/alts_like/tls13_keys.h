#pragma once

#include <openssl/aead.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "alts_like/aead_context.h"

namespace sluice {

/// The cipher suites of TLS 1.3 (RFC 8446 section B.4) that BoringSSL has; the values are those on the wire.
enum class Tls13Cipher : uint16_t {
  kAes128Gcm = 0x1301,
  kAes256Gcm = 0x1302,
  kChaCha20Poly1305 = 0x1303,
};

/// One direction's keys as plain data: all that is needed to go on, here or elsewhere.
struct Tls13Secret {
  static constexpr size_t kMaxBytes = 48;  // SHA-384.

  Tls13Cipher cipher = Tls13Cipher::kAes128Gcm;
  uint8_t size = 0;  ///< Of the cipher suite's hash: 32 or 48.
  std::array<uint8_t, kMaxBytes> bytes{};
  uint64_t sequence = 0;  ///< Of the next record.

  ~Tls13Secret();  ///< Wipes it.

  /// From what a handshake gives; nothing when the size is not that of the suite's hash.
  static std::optional<Tls13Secret> from(Tls13Cipher cipher, std::span<const uint8_t> secret, uint64_t sequence);
};

/// One direction of a TLS 1.3 connection: the secret, and the cipher's context, which is made when it is needed and
/// dropped when the connection waits. Both are wiped.
class Tls13Keys {
 public:
  static constexpr size_t kTagBytes = AeadContext::kTagBytes;

  explicit Tls13Keys(const Tls13Secret& secret) : secret_(secret) {}

  const Tls13Secret& secret() const { return secret_; }
  bool is_chacha() const { return secret_.cipher == Tls13Cipher::kChaCha20Poly1305; }

  /// The next record's sequence number; the record layer must not come to its end.
  uint64_t sequence() const { return secret_.sequence; }
  bool exhausted() const { return secret_.sequence == UINT64_MAX; }

  /// Opens / seals one record and counts it. `pieces` are its inner bytes; `header` is authenticated with them.
  /// False: the record is not authentic. Precondition: pieces.size() <= CRYPTO_IOVEC_MAX, not exhausted().
  bool open(std::span<const CRYPTO_IOVEC> pieces, std::span<const uint8_t> header, std::span<const uint8_t> tag);
  void seal(std::span<const CRYPTO_IOVEC> pieces, std::span<const uint8_t> header, uint8_t* tag);

  /// The next generation of keys (RFC 8446 section 7.2); the sequence begins again.
  void update();
  /// Drops what open or seal make again from the secret.
  void park() { context_.drop(); }

 private:
  AeadContext::Nonce next_nonce();

  Tls13Secret secret_;
  AeadContext context_;
};

}  // namespace sluice
