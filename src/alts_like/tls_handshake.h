#pragma once

#include <openssl/base.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alts_like/handshake.h"
#include "alts_like/record_layer.h"
#include "alts_like/tls_wire.h"
#include "buffer/buffer.h"

namespace sluice {

/// A TLS handshake by BoringSSL, without a socket. When it is done the SSL object goes: a TLS 1.3 connection goes on in
/// a Tls13RecordLayer, an older one in a layer that keeps the SSL object. (A client's goes with this object, as it is
/// needed to make sessions of the tickets that come later.)
///
///     TlsHandshake handshake(context, TlsHandshake::Side::kServer);
///     switch (handshake.advance(pool, std::move(received), to_send)) {
///       case TlsHandshake::Status::kNeedMore: return wait();
///       case TlsHandshake::Status::kFailed:   return give_up(handshake.error());   // to_send may hold an alert
///       case TlsHandshake::Status::kDone:     layer = handshake.finish();
///     }
class TlsHandshake final : public Handshake {
 public:
  enum class Side : uint8_t { kServer, kClient };

  /// Takes a reference to `context`.
  TlsHandshake(SSL_CTX* context, Side side);
  ~TlsHandshake() override;
  TlsHandshake(const TlsHandshake&) = delete;
  TlsHandshake& operator=(const TlsHandshake&) = delete;

  /// For settings of this connection, before the first advance: the server's name, for example.
  SSL* ssl() { return ssl_.get(); }

  /// kNeedMore also waits for what a private-key method of the context has yet to do.
  Status advance(ChunkPool& pool, Buffer&& received, Buffer& out) override;

  /// The reason as BoringSSL names it, with the alert that was sent or received.
  const std::string& error() const override { return error_; }

  // Once it is done:

  Agreement agreement() const override;
  uint16_t version() const;  ///< 0x0303 or 0x0304.
  bool resumed() const;
  /// TLS 1.2, client: the session, to resume with later. In TLS 1.3 tickets come behind the handshake: null.
  bssl::UniquePtr<SSL_SESSION> session() const;
  std::unique_ptr<RecordLayer> finish() override;
  /// For those who go on with keys that they export from ssl() instead: what has arrived behind the handshake.
  Buffer take_arrived();
  /// TLS 1.3, client, after finish(): the sessions that RecordLayer::take_tickets() is about.
  std::vector<bssl::UniquePtr<SSL_SESSION>> sessions_of(Buffer&& tickets);

 private:
  Status fail();

  const Side side_;
  std::unique_ptr<TlsWire> wire_;
  bssl::UniquePtr<SSL> ssl_;
  std::string error_;
};

}  // namespace sluice
