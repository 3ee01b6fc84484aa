#pragma once

#include <openssl/base.h>

#include <cstddef>
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

/// A TLS handshake by BoringSSL, without a socket. When it is done the SSL object goes: the connection goes on in a
/// Tls13RecordLayer or Tls12RecordLayer. (A client's of TLS 1.3 goes with this object, as it is needed to make sessions
/// of the tickets that come later.)
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

  /// Takes a reference to `context`. Precondition: of TLS 1.2 it allows ciphers with authenticated encryption only, and
  /// nothing older.
  TlsHandshake(SSL_CTX* context, Side side);
  ~TlsHandshake() override;
  TlsHandshake(const TlsHandshake&) = delete;
  TlsHandshake& operator=(const TlsHandshake&) = delete;

  /// For settings of this connection, before the first advance: the server's name, for example.
  SSL* ssl() { return ssl_.get(); }

  /// Of the peer's bytes while a private key signs: what a socket may still deliver after it was told to stop.
  static constexpr size_t kMaxWaitingBytes = size_t{64} * 1024;

  /// kNeedMore also waits for what a private-key method of the context has yet to do. More than kMaxWaitingBytes
  /// meanwhile are a failure: no peer has anything to say then.
  Status advance(ChunkPool& pool, Buffer&& received, Buffer& out) override;

  /// Not while a private key signs.
  bool wants_bytes() const override { return !signing_; }
  std::string awaited() const override;

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
  Status fail(std::string_view error);
  void describe_refused_certificate();

  const Side side_;
  bool signing_ = false;  // A private-key method has yet to give a signature.
  std::unique_ptr<TlsWire> wire_;
  bssl::UniquePtr<SSL> ssl_;
  std::string error_;
};

}  // namespace sluice
