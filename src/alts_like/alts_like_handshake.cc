#include "alts_like/alts_like_handshake.h"

#include <openssl/mem.h>
#include <openssl/ssl.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "alts_like/alts_record_layer.h"
#include "alts_like/handshaker_text.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// Labels with this prefix need no registration (RFC 5705 section 4).
constexpr std::string_view kExporterLabel = "EXPERIMENTAL sluice alts_like 1";
// The protocol's name is the exporter's context, so that each protocol has its own keys.
constexpr AltsProtocol kRecordProtocol = AltsProtocol::kAes128GcmRekey;
constexpr std::string_view kRecordProtocolName = alts_protocol_name(kRecordProtocol);

// Bound on a peer's name in an error.
constexpr size_t kMaxShownNameBytes = 256;

}  // namespace

AltsLikeHandshake::AltsLikeHandshake(SSL_CTX* context, TlsHandshake::Side side, const Options& options)
    : tls_(context, side), side_(side), options_(options) {}

Handshake::Status AltsLikeHandshake::advance(ChunkPool& pool, Buffer&& received, Buffer& out) {
  const Status status = tls_.advance(pool, std::move(received), out);
  return status == Status::kDone ? check() : status;
}

// Checks the requirements that the SSL_CTX cannot enforce.
Handshake::Status AltsLikeHandshake::check() {
  const Agreement agreed = tls_.agreement();
  if (tls_.version() != TLS1_3_VERSION || !agreed.certified) {
    error_ = "the peer did not present a certificate in TLS 1.3";
  } else if (agreed.alpn != kProtocol) {
    error_ = std::string("the peer does not speak ") + kProtocol;
  } else if (!agreed.peer_is_one_of(options_.peers)) {
    // A certificate may contain any bytes, and the error goes to a log.
    const auto& names = agreed.peer_names;
    error_ = "the peer is " + (names.empty() ? "nameless" : '"' + printable(names.front(), kMaxShownNameBytes) + '"') +
             ", none of target_identities";
  }
  return error_.empty() ? Status::kDone : Status::kFailed;
}

Agreement AltsLikeHandshake::agreement() const {
  Agreement agreed = tls_.agreement();
  agreed.version = "ALTS-like";
  agreed.cipher = kRecordProtocolName;
  agreed.alpn.clear();  // kProtocol names the handshake, not an application protocol.
  return agreed;
}

std::unique_ptr<RecordLayer> AltsLikeHandshake::finish() {
  std::array<uint8_t, AltsKeys::secret_bytes(kRecordProtocol)> keys;
  SLUICE_CHECK(SSL_export_keying_material(tls_.ssl(), keys.data(), keys.size(), kExporterLabel.data(),
                                          kExporterLabel.size(),
                                          reinterpret_cast<const uint8_t*>(kRecordProtocolName.data()),
                                          kRecordProtocolName.size(), /*use_context=*/1) == 1);
  std::optional<AltsState> state =
      AltsState::from(kRecordProtocol, keys, side_ == TlsHandshake::Side::kClient, options_.max_frame_bytes);
  OPENSSL_cleanse(keys.data(), keys.size());
  SLUICE_CHECK(state);
  state->flags.authenticated_end = true;
  auto layer = std::make_unique<AltsRecordLayer>(*state, tls_.take_arrived());
  OPENSSL_cleanse(&*state, sizeof *state);
  return layer;
}

}  // namespace sluice
