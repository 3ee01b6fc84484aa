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
#include "sluice/buffer.h"

namespace sluice {

/// Decides whether a server continues a handshake, once the whole ClientHello has arrived and before any key is used.
class HelloGate {
 public:
  virtual ~HelloGate() = default;
  /// `server_name`: what the client sent, or empty.
  virtual bool admits(std::string_view server_name) = 0;
};

/// A TLS handshake by BoringSSL, without a socket. finish() hands the connection to a Tls13RecordLayer or
/// Tls12RecordLayer and frees the SSL object. (A TLS 1.3 client keeps its SSL object until this object is destroyed, to
/// make sessions from the tickets that arrive later.)
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

  /// Takes a reference to `context`. Precondition: it allows TLS 1.2 only with AEAD ciphers, and no older version.
  TlsHandshake(SSL_CTX* context, Side side);
  ~TlsHandshake() override;
  TlsHandshake(const TlsHandshake&) = delete;
  TlsHandshake& operator=(const TlsHandshake&) = delete;

  /// For settings of this connection, such as the server name, before the first advance().
  SSL* ssl() { return ssl_.get(); }

  /// Makes the connections of this context consult their gates, which are not used otherwise.
  static void use_gates(SSL_CTX* context);
  /// Before the first advance(). If it does not admit the client, the handshake fails with the error kRejected.
  void set_gate(std::unique_ptr<HelloGate> gate);
  static constexpr std::string_view kRejected = "CONNECTION_REJECTED";
  /// The error of a server whose client speaks HTTP without TLS.
  static constexpr std::string_view kPlainHttp = "HTTP_REQUEST";

  /// Bound on the peer's bytes while a private key signs: a socket may still deliver this much after stop_reading().
  static constexpr size_t kMaxWaitingBytes = size_t{64} * 1024;

  /// kNeedMore may also mean that a private-key method of the context has not finished. Meanwhile, more than
  /// kMaxWaitingBytes from the peer are a failure: no peer has reason to send them.
  Status advance(ChunkPool& pool, Buffer&& received, Buffer& out) override;

  /// False while a private key signs.
  bool wants_bytes() const override { return !signing_; }
  std::string awaited() const override;

  /// BoringSSL's reason, with the alert that was sent or received.
  const std::string& error() const override { return error_; }

  // After kDone:

  Agreement agreement() const override;
  uint16_t version() const;  ///< 0x0303 or 0x0304.
  bool resumed() const;
  /// TLS 1.2, client: the session, for later resumption. Null in TLS 1.3, whose tickets follow the handshake.
  bssl::UniquePtr<SSL_SESSION> session() const;
  std::unique_ptr<RecordLayer> finish() override;
  /// Moves out the bytes that followed the handshake. For callers that export keys from ssl() instead of calling
  /// finish().
  Buffer take_arrived();
  /// TLS 1.3, client, after finish(): makes sessions from the result of RecordLayer::take_tickets().
  std::vector<bssl::UniquePtr<SSL_SESSION>> sessions_of(Buffer&& tickets);

 private:
  Status fail();
  Status fail(std::string_view error);
  void describe_refused_certificate();

  const Side side_;
  bool signing_ = false;  // A private-key method has not returned its signature yet.
  std::unique_ptr<HelloGate> gate_;
  std::unique_ptr<TlsWire> wire_;
  bssl::UniquePtr<SSL> ssl_;
  std::string error_;
};

}  // namespace sluice
