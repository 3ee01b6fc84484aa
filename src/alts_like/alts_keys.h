#pragma once

#include <openssl/aead.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "alts_like/aead_context.h"

namespace sluice {

/// The record protocols of ALTS that encrypt their payload.
enum class AltsProtocol : uint8_t {
  kAes128GcmRekey,  ///< ALTSRP_GCM_AES128_REKEY
  kAes128Gcm,       ///< ALTSRP_GCM_AES128
};
constexpr std::string_view alts_protocol_name(AltsProtocol protocol) {
  return protocol == AltsProtocol::kAes128Gcm ? "ALTSRP_GCM_AES128" : "ALTSRP_GCM_AES128_REKEY";
}

/// The number of the next frame in one direction, low byte first. The top bit is set in frames that the server sends.
/// The number is the frame's nonce, so it is never used twice.
struct AltsCounter {
  std::array<uint8_t, 12> bytes{};
  bool exhausted = false;  ///< All numbers have been used.

  static AltsCounter first(bool from_server);
  /// Precondition: not exhausted.
  void increment(AltsProtocol protocol);
  bool operator==(const AltsCounter&) const = default;
};

/// The keys of both directions of an ALTS connection: the secret, the counters, and the cipher contexts, which are made
/// when they are needed and dropped while the connection is idle. The destructor wipes the secret.
class AltsKeys {
 public:
  static constexpr size_t kTagBytes = AeadContext::kTagBytes;
  static constexpr size_t kMaxSecretBytes = 44;
  /// How many bytes of a handshake's key data the protocol needs. It ignores the rest.
  static constexpr size_t secret_bytes(AltsProtocol protocol) {
    return protocol == AltsProtocol::kAes128Gcm ? 16 : kMaxSecretBytes;
  }
  using Secret = std::array<uint8_t, kMaxSecretBytes>;
  using AesKey = std::array<uint8_t, 16>;

  /// Derives a key of the protocol with rekeying. All frames whose counters agree in bytes 2 to 7 share one key, so a
  /// key serves 65,536 frames.
  static AesKey derive(const Secret& secret, const AltsCounter& counter);

  AltsKeys(AltsProtocol protocol, const Secret& secret, const AltsCounter& read, const AltsCounter& write)
      : secret_(secret), protocol_(protocol), read_{read, {}}, write_{write, {}} {}
  ~AltsKeys();

  AltsProtocol protocol() const { return protocol_; }
  const Secret& secret() const { return secret_; }
  const AltsCounter& read() const { return read_.counter; }
  const AltsCounter& write() const { return write_.counter; }

  /// Opens or seals one frame and counts it. ALTS frames have no additional authenticated data. False: the frame is not
  /// authentic. Precondition: pieces.size() <= CRYPTO_IOVEC_MAX, and the direction's counter is not exhausted.
  bool open(std::span<const CRYPTO_IOVEC> pieces, std::span<const uint8_t> tag,
            std::span<const uint8_t> authenticated = {});
  void seal(std::span<const CRYPTO_IOVEC> pieces, uint8_t* tag, std::span<const uint8_t> authenticated = {});

  /// Drops the cipher contexts. The next open or seal makes them from the secret.
  void park();

 private:
  struct Direction {
    AltsCounter counter;
    AeadContext context;
  };
  AeadContext::Nonce ready(Direction& direction);
  void count(Direction& direction);

  Secret secret_;
  AltsProtocol protocol_;
  Direction read_;
  Direction write_;
};

}  // namespace sluice
