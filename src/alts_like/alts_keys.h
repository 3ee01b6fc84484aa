#pragma once

#include <openssl/aead.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "alts_like/aead_context.h"

namespace sluice {

/// The record protocols of ALTS that hide what they carry.
enum class AltsProtocol : uint8_t {
  kAes128GcmRekey,  ///< ALTSRP_GCM_AES128_REKEY
  kAes128Gcm,       ///< ALTSRP_GCM_AES128
};
constexpr std::string_view alts_protocol_name(AltsProtocol protocol) {
  return protocol == AltsProtocol::kAes128Gcm ? "ALTSRP_GCM_AES128" : "ALTSRP_GCM_AES128_REKEY";
}

/// The number of a direction's next frame, the low byte first. The top bit is set in what the server sends. It is the
/// frame's nonce, so it is never used twice.
struct AltsCounter {
  std::array<uint8_t, 12> bytes{};
  bool exhausted = false;  ///< No number is left.

  static AltsCounter first(bool from_server);
  /// Precondition: not exhausted.
  void increment(AltsProtocol protocol);
  bool operator==(const AltsCounter&) const = default;
};

/// Both directions of an ALTS connection: the secret, the counters, and the cipher's contexts, which are made when they
/// are needed and dropped when the connection waits. The secret is wiped.
class AltsKeys {
 public:
  static constexpr size_t kTagBytes = AeadContext::kTagBytes;
  static constexpr size_t kMaxSecretBytes = 44;
  /// What is used of a handshake's key data; fewer are not enough.
  static constexpr size_t secret_bytes(AltsProtocol protocol) {
    return protocol == AltsProtocol::kAes128Gcm ? 16 : kMaxSecretBytes;
  }
  using Secret = std::array<uint8_t, kMaxSecretBytes>;
  using AesKey = std::array<uint8_t, 16>;

  /// With rekeying: the key for the frames whose counter is that in its bytes 2 to 7, thus for 65,536 of them.
  static AesKey derive(const Secret& secret, const AltsCounter& counter);

  AltsKeys(AltsProtocol protocol, const Secret& secret, const AltsCounter& read, const AltsCounter& write)
      : secret_(secret), protocol_(protocol), read_{read, {}}, write_{write, {}} {}
  ~AltsKeys();

  AltsProtocol protocol() const { return protocol_; }
  const Secret& secret() const { return secret_; }
  const AltsCounter& read() const { return read_.counter; }
  const AltsCounter& write() const { return write_.counter; }

  /// Opens / seals one frame and counts it. Frames have nothing that is authenticated besides. False: the frame is not
  /// authentic. Precondition: pieces.size() <= CRYPTO_IOVEC_MAX, and the direction's counter is not exhausted.
  bool open(std::span<const CRYPTO_IOVEC> pieces, std::span<const uint8_t> tag,
            std::span<const uint8_t> authenticated = {});
  void seal(std::span<const CRYPTO_IOVEC> pieces, uint8_t* tag, std::span<const uint8_t> authenticated = {});

  /// Drops what open or seal make again from the secret.
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
