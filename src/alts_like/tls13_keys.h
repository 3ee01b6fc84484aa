#pragma once

#include <openssl/aead.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "alts_like/aead_context.h"

namespace sluice {

/// The cipher suites of TLS 1.3 (RFC 8446 section B.4) that BoringSSL has, with their values on the wire.
enum class Tls13Cipher : uint16_t {
  kAes128Gcm = 0x1301,
  kAes256Gcm = 0x1302,
  kChaCha20Poly1305 = 0x1303,
};

/// The traffic secret of one direction as plain data: everything needed to resume, here or in another process.
struct Tls13Secret {
  static constexpr size_t kMaxBytes = 48;  // SHA-384.

  Tls13Cipher cipher = Tls13Cipher::kAes128Gcm;
  uint8_t size = 0;  ///< The size of the cipher suite's hash: 32 or 48 bytes.
  std::array<uint8_t, kMaxBytes> bytes{};
  uint64_t sequence = 0;  ///< The number of the next record.

  ~Tls13Secret();  ///< Wipes the secret.

  /// Makes a secret from a handshake's result. Nothing if its size is not the size of the suite's hash.
  static std::optional<Tls13Secret> from(Tls13Cipher cipher, std::span<const uint8_t> secret, uint64_t sequence);
};

/// One direction of a TLS 1.3 connection: the secret, and the cipher context, which is made when it is needed and
/// dropped while the connection is idle. Both are wiped.
class Tls13Keys {
 public:
  static constexpr size_t kTagBytes = AeadContext::kTagBytes;

  explicit Tls13Keys(const Tls13Secret& secret) : secret_(secret) {}

  const Tls13Secret& secret() const { return secret_; }
  bool is_chacha() const { return secret_.cipher == Tls13Cipher::kChaCha20Poly1305; }

  /// The next record's sequence number. The record layer must not exhaust the numbers.
  uint64_t sequence() const { return secret_.sequence; }
  bool exhausted() const { return secret_.sequence == UINT64_MAX; }

  /// Opens or seals one record and counts it. `pieces` are its inner bytes; `header` is authenticated with them.
  /// False: the record is not authentic. Precondition: pieces.size() <= CRYPTO_IOVEC_MAX, not exhausted().
  bool open(std::span<const CRYPTO_IOVEC> pieces, std::span<const uint8_t> header, std::span<const uint8_t> tag);
  void seal(std::span<const CRYPTO_IOVEC> pieces, std::span<const uint8_t> header, uint8_t* tag);

  /// Derives the next generation of keys (RFC 8446 section 7.2). The sequence restarts at 0.
  void update();
  /// Drops the cipher context. The next open or seal makes it from the secret.
  void park() { context_.drop(); }

 private:
  AeadContext::Nonce next_nonce();

  Tls13Secret secret_;
  AeadContext context_;
};

}  // namespace sluice
