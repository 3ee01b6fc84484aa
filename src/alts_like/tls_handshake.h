#pragma once

#include <openssl/base.h>

#include <cstdint>
#include <memory>
#include <string>

#include "alts_like/record_layer.h"
#include "alts_like/tls_wire.h"
#include "buffer/buffer.h"

namespace sluice {

/// A TLS handshake by BoringSSL, without a socket. When it is done the SSL object goes: a TLS 1.3 connection goes on in
/// a Tls13RecordLayer, an older one in a layer that keeps the SSL object.
///
///     TlsHandshake handshake(context, TlsHandshake::Side::kServer);
///     switch (handshake.advance(pool, std::move(received), to_send)) {
///       case TlsHandshake::Status::kNeedMore: return wait();
///       case TlsHandshake::Status::kFailed:   return give_up(handshake.error());   // to_send may hold an alert
///       case TlsHandshake::Status::kDone:     layer = handshake.finish();
///     }
class TlsHandshake {
 public:
  enum class Side : uint8_t { kServer, kClient };
  enum class Status : uint8_t { kNeedMore, kDone, kFailed };

  /// Takes a reference to `context`.
  TlsHandshake(SSL_CTX* context, Side side);
  ~TlsHandshake();
  TlsHandshake(const TlsHandshake&) = delete;
  TlsHandshake& operator=(const TlsHandshake&) = delete;

  /// For settings of this connection, before the first advance: the server's name, for example.
  SSL* ssl() { return ssl_.get(); }

  /// Goes on with what was received; appends to `out` what is to be sent, also when it failed. A client begins with
  /// nothing received.
  Status advance(ChunkPool& pool, Buffer&& received, Buffer& out);

  /// Why it failed: the reason as BoringSSL names it, with the alert that was sent or received.
  const std::string& error() const { return error_; }

  // Once it is done:

  std::string server_name() const;  ///< As the client sent it; empty if it did not.
  std::string alpn() const;         ///< The protocol that was agreed on; empty if none.
  uint16_t version() const;         ///< 0x0303 or 0x0304.
  bool resumed() const;
  /// The connection from here on, with what has arrived behind the handshake. Call once.
  std::unique_ptr<RecordLayer> finish();

 private:
  Status fail();

  const Side side_;
  std::unique_ptr<TlsWire> wire_;
  bssl::UniquePtr<SSL> ssl_;
  std::string error_;
};

}  // namespace sluice
