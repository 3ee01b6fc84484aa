#pragma once

#include <openssl/base.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "alts_like/handshake.h"
#include "alts_like/tls_handshake.h"

namespace sluice {

/// The keys of an ALTS connection without Google's handshaker service: both sides show certificates in a handshake of
/// TLS 1.3, and what that exports (RFC 8446 section 7.5) are the keys of the ALTS record protocol. Unlike in ALTS, the
/// end of each direction is told and authentic. docs/alts.md has the argument why this is safe.
class AltsLikeHandshake final : public Handshake {
 public:
  /// Agreed on by both sides, so that nobody who means to speak TLS, or another version of this, takes part.
  static constexpr const char* kProtocol = "sluice-alts/1";

  struct Options {
    const std::vector<std::string>&
        peers;               ///< Names, of which the certificate must hold one. Empty: any. Outlives this.
    size_t max_frame_bytes;  ///< That we send.
  };

  /// `context` speaks TLS 1.3 only, shows a certificate, demands one, and knows no application protocol but kProtocol.
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
