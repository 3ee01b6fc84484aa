#pragma once

#include <openssl/base.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "alts_like/handshake.h"
#include "alts_like/tls_handshake.h"

namespace sluice {

/// Agrees on the keys of an ALTS connection without Google's handshaker service. Both sides present certificates in a
/// TLS 1.3 handshake, whose exported keying material (RFC 8446 section 7.5) provides the keys of the ALTS record
/// protocol. Unlike in ALTS, each direction has an authenticated end. docs/guides/alts.md explains why this is safe.
class AltsLikeHandshake final : public Handshake {
 public:
  /// The ALPN protocol that both sides must agree on. It keeps out peers that speak ordinary TLS or another version of
  /// this protocol.
  static constexpr const char* kProtocol = "sluice-alts/1";

  struct Options {
    /// The peer's certificate must hold one of these names. Empty: any name. Outlives the handshake.
    const std::vector<std::string>& peers;
    size_t max_frame_bytes;  ///< The size limit of frames that we send.
  };

  /// Precondition: `context` allows only TLS 1.3, presents a certificate, requires one from the peer, and has kProtocol
  /// as its only application protocol.
  AltsLikeHandshake(SSL_CTX* context, TlsHandshake::Side side, const Options& options);

  SSL* ssl() { return tls_.ssl(); }

  Status advance(ChunkPool& pool, Buffer&& received, Buffer& out) override;
  bool wants_bytes() const override { return tls_.wants_bytes(); }
  std::string awaited() const override { return tls_.awaited(); }
  const std::string& error() const override { return error_.empty() ? tls_.error() : error_; }
  Agreement agreement() const override;
  std::unique_ptr<RecordLayer> finish() override;

 private:
  Status check();

  TlsHandshake tls_;
  const TlsHandshake::Side side_;
  const Options options_;
  std::string error_;
};

}  // namespace sluice
