#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alts_like/record_layer.h"
#include "sluice/buffer.h"

namespace sluice {

/// The parameters that a handshake has agreed on, and the peer's identity.
struct Agreement {
  std::string_view version, cipher;     ///< As their specifications name them: TLSv1.3, TLS_AES_128_GCM_SHA256.
  std::string server_name;              ///< The name that a TLS client sent; empty if it sent none.
  std::string alpn;                     ///< The application protocol; empty if none was agreed on.
  std::vector<std::string> peer_names;  ///< The names that the peer has proven; empty if it presented no proof.
  std::string common_name;              ///< The certificate's common name; with ALTS, the service account.
  bool certified = false;               ///< Whether the peer has proven its identity, now or when the session began.
  bool resumed = false;

  /// Whether the peer has one of the names in `wanted`. True if `wanted` is empty.
  bool peer_is_one_of(const std::vector<std::string>& wanted) const;
};

/// Agrees with the peer on the keys of a RecordLayer, without a socket. Implemented by TlsHandshake, AltsLikeHandshake
/// and AltsHandshake.
///
///     switch (handshake.advance(pool, std::move(received), to_send)) {
///       case Handshake::Status::kNeedMore: return wait();
///       case Handshake::Status::kFailed:   return give_up(handshake.error());   // to_send may hold an alert
///       case Handshake::Status::kDone:     layer = handshake.finish();
///     }
class Handshake {
 public:
  /// kNeedMore: the handshake waits for the peer's bytes, or for another party, which then has advance() called.
  enum class Status : uint8_t { kNeedMore, kDone, kFailed };

  virtual ~Handshake() = default;

  /// Processes the received bytes and appends to `out` the bytes to send, even on failure. A client's first call has
  /// nothing received.
  virtual Status advance(ChunkPool& pool, Buffer&& received, Buffer& out) = 0;

  /// After kNeedMore: whether the handshake needs the peer's bytes. If not, the caller should stop reading until the
  /// next advance(), because the handshake accepts only a bounded amount.
  virtual bool wants_bytes() const { return true; }
  /// After kNeedMore: the party that the handshake waits for, for the log line about a timeout.
  virtual std::string awaited() const { return "the peer"; }

  /// The reason for kFailed.
  virtual const std::string& error() const = 0;

  /// Call after kDone and before finish().
  virtual Agreement agreement() const = 0;

  /// Returns the record layer for the rest of the connection. It holds the bytes that arrived after the handshake. Call
  /// once, after kDone.
  virtual std::unique_ptr<RecordLayer> finish() = 0;
};

}  // namespace sluice
