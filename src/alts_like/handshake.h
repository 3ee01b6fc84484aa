#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alts_like/record_layer.h"
#include "buffer/buffer.h"

namespace sluice {

/// What a handshake has agreed on, and who the peer is.
struct Agreement {
  std::string_view version, cipher;     ///< As their specifications name them: TLSv1.3, TLS_AES_128_GCM_SHA256.
  std::string server_name;              ///< That a client of TLS sent; empty if it did not.
  std::string alpn;                     ///< The application's protocol; empty if none was agreed on.
  std::vector<std::string> peer_names;  ///< What the peer has proven to be; empty if nothing was asked of it.
  std::string common_name;              ///< Of its certificate; a service account where there is none.
  bool certified = false;               ///< Whether it has proven anything, now or when the session began.
  bool resumed = false;

  /// Whether the peer is one of `wanted`; anybody is, if that is empty.
  bool peer_is_one_of(const std::vector<std::string>& wanted) const;
};

/// How two peers come to the keys of a RecordLayer, without a socket: TlsHandshake, AltsLikeHandshake, AltsHandshake.
///
///     switch (handshake.advance(pool, std::move(received), to_send)) {
///       case Handshake::Status::kNeedMore: return wait();
///       case Handshake::Status::kFailed:   return give_up(handshake.error());   // to_send may hold an alert
///       case Handshake::Status::kDone:     layer = handshake.finish();
///     }
class Handshake {
 public:
  /// kNeedMore: of the peer's bytes, or of what somebody else has yet to do, who then lets advance be called again.
  enum class Status : uint8_t { kNeedMore, kDone, kFailed };

  virtual ~Handshake() = default;

  /// Goes on with what was received; appends to `out` what is to be sent, also when it failed. A client begins with
  /// nothing received.
  virtual Status advance(ChunkPool& pool, Buffer&& received, Buffer& out) = 0;

  /// After kNeedMore: whether the peer's bytes are wanted. If not, they had better stay where they are until advance is
  /// called again: there is a bound to what it takes.
  virtual bool wants_bytes() const { return true; }
  /// Whom it waits for then, for the log line about one that took too long.
  virtual std::string awaited() const { return "the peer"; }

  /// Why it failed.
  virtual const std::string& error() const = 0;

  /// Call when it is done, and before finish().
  virtual Agreement agreement() const = 0;

  /// The connection from here on, with what has arrived behind the handshake. Call once, when it is done.
  virtual std::unique_ptr<RecordLayer> finish() = 0;
};

}  // namespace sluice
