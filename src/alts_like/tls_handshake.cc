#include "alts_like/tls_handshake.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <utility>

#include "alts_like/tls12_record_layer.h"
#include "alts_like/tls13_record_layer.h"
#include "pool/check.h"

namespace sluice {

TlsHandshake::TlsHandshake(SSL_CTX* context, Side side) : side_(side), wire_(std::make_unique<TlsWire>()) {
  ssl_.reset(SSL_new(context));
  SLUICE_CHECK(ssl_);
  bssl::UniquePtr<BIO> bio = wire_->bio();
  SSL_set_bio(ssl_.get(), bio.get(), bio.get());  // Takes one reference for both.
  static_cast<void>(bio.release());
  side == Side::kServer ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
}

TlsHandshake::~TlsHandshake() = default;

TlsHandshake::Status TlsHandshake::advance(ChunkPool& pool, Buffer&& received, Buffer& out) {
  wire_->pool = &pool;
  wire_->in.append(std::move(received));
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  Status status = Status::kDone;
  if (result != 1) {
    status = SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ ? Status::kNeedMore : fail();
  } else if (side_ == Side::kServer && version() == TLS1_3_VERSION) {
    // Session tickets are made by now, and go out with the first write.
    SSL_write(ssl_.get(), "", 0);
  }
  out.append(std::move(wire_->out));
  wire_->in.settle(pool);
  return status;
}

TlsHandshake::Status TlsHandshake::fail() {
  const uint32_t code = ERR_peek_last_error();
  const char* reason = code ? ERR_reason_error_string(code) : nullptr;
  error_ = reason ? reason : "the connection ended";
  ERR_clear_error();
  return Status::kFailed;
}

std::string TlsHandshake::server_name() const {
  const char* name = SSL_get_servername(ssl_.get(), TLSEXT_NAMETYPE_host_name);
  return name ? name : "";
}

std::string TlsHandshake::alpn() const {
  const uint8_t* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return std::string(reinterpret_cast<const char*>(name), size);
}

uint16_t TlsHandshake::version() const { return static_cast<uint16_t>(SSL_version(ssl_.get())); }

bool TlsHandshake::resumed() const { return SSL_session_reused(ssl_.get()) == 1; }

std::unique_ptr<RecordLayer> TlsHandshake::finish() {
  SLUICE_CHECK(!SSL_in_init(ssl_.get()));
  if (version() != TLS1_3_VERSION) return std::make_unique<Tls12RecordLayer>(std::move(ssl_), std::move(wire_));
  // BoringSSL reads record by record: it holds nothing back.
  SLUICE_CHECK(SSL_has_pending(ssl_.get()) == 0);
  bssl::Span<const uint8_t> read, write;
  SLUICE_CHECK(bssl::SSL_get_traffic_secrets(ssl_.get(), &read, &write));
  const auto cipher = static_cast<Tls13Cipher>(SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl_.get())));
  Tls13State state;
  state.read = Tls13Secret::from(cipher, {read.data(), read.size()}, SSL_get_read_sequence(ssl_.get())).value();
  state.write = Tls13Secret::from(cipher, {write.data(), write.size()}, SSL_get_write_sequence(ssl_.get())).value();
  state.flags.is_client = side_ == Side::kClient;
  auto layer = std::make_unique<Tls13RecordLayer>(state, std::move(wire_->in));
  ssl_.reset();
  wire_.reset();
  return layer;
}

}  // namespace sluice
