#include "alts_like/tls_handshake.h"

#include <openssl/err.h>
#include <openssl/mem.h>
#include <openssl/nid.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "alts_like/handshaker_text.h"
#include "alts_like/peer_certificate.h"
#include "alts_like/tls12_record_layer.h"
#include "alts_like/tls13_record_layer.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// The size of a handshake message's header (RFC 8446 section 4): the type, and 24 bits of length.
constexpr size_t kMessageHeaderBytes = 4;

// Bounds on the names of a refused certificate in an error.
constexpr size_t kNamesShown = 3;
constexpr size_t kNameBytes = 120;

std::optional<Tls12Cipher> tls12_cipher_of(const SSL* ssl) {
  switch (SSL_CIPHER_get_cipher_nid(SSL_get_current_cipher(ssl))) {
    case NID_aes_128_gcm:
      return Tls12Cipher::kAes128Gcm;
    case NID_aes_256_gcm:
      return Tls12Cipher::kAes256Gcm;
    case NID_chacha20_poly1305:
      return Tls12Cipher::kChaCha20Poly1305;
    default:
      return std::nullopt;
  }
}

// The state of a TLS 1.2 SSL object. Its key block has the client's key, the server's key, and the fixed parts of their
// nonces, in this order (RFC 5246 section 6.3).
Tls12State tls12_state_of(const SSL* ssl, bool is_client) {
  Tls12State state;
  state.read.cipher = state.write.cipher = tls12_cipher_of(ssl).value();
  state.read.sequence = SSL_get_read_sequence(ssl);
  state.write.sequence = SSL_get_write_sequence(ssl);
  std::array<uint8_t, 2 * (sizeof(Tls12Secret::key) + sizeof(Tls12Secret::iv))> block;
  const size_t key_bytes = state.read.key_bytes(), iv_bytes = state.read.iv_bytes();
  const size_t bytes = 2 * (key_bytes + iv_bytes);
  SLUICE_CHECK(SSL_get_key_block_len(ssl) == bytes && SSL_generate_key_block(ssl, block.data(), bytes) == 1);
  size_t at = 0;
  const auto take = [&](std::span<uint8_t> to) {
    std::copy_n(block.data() + at, to.size(), to.data());
    at += to.size();
  };
  Tls12Secret* const sides[] = {is_client ? &state.write : &state.read, is_client ? &state.read : &state.write};
  for (Tls12Secret* const side : sides) take(std::span(side->key).first(key_bytes));
  for (Tls12Secret* const side : sides) take(std::span(side->iv).first(iv_bytes));
  OPENSSL_cleanse(block.data(), block.size());
  return state;
}

// The index of the gate in an SSL.
int gate_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

}  // namespace

TlsHandshake::TlsHandshake(SSL_CTX* context, Side side) : side_(side), wire_(std::make_unique<TlsWire>()) {
  ssl_.reset(SSL_new(context));
  SLUICE_CHECK(ssl_);
  bssl::UniquePtr<BIO> bio = wire_->bio();
  SSL_set_bio(ssl_.get(), bio.get(), bio.get());  // Takes one reference for both directions.
  static_cast<void>(bio.release());
  // Early data can be replayed, and with it SSL_do_handshake would return before the handshake is done.
  SSL_set_early_data_enabled(ssl_.get(), 0);
  side == Side::kServer ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
}

TlsHandshake::~TlsHandshake() = default;

// BoringSSL calls it once for a connection, also if it requests a second hello.
void TlsHandshake::use_gates(SSL_CTX* context) {
  SSL_CTX_set_select_certificate_cb(context, [](const SSL_CLIENT_HELLO* hello) {
    auto* const gate = static_cast<HelloGate*>(SSL_get_ex_data(hello->ssl, gate_index()));
    const char* const name = gate ? SSL_get_servername(hello->ssl, TLSEXT_NAMETYPE_host_name) : nullptr;
    return !gate || gate->admits(name ? name : "") ? ssl_select_cert_success : ssl_select_cert_error;
  });
}

void TlsHandshake::set_gate(std::unique_ptr<HelloGate> gate) {
  gate_ = std::move(gate);
  SLUICE_CHECK(SSL_set_ex_data(ssl_.get(), gate_index(), gate_.get()) == 1);
}

TlsHandshake::Status TlsHandshake::advance(ChunkPool& pool, Buffer&& received, Buffer& out) {
  wire_->pool = &pool;
  wire_->in.append(std::move(received));
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  const int wanted = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), result);
  signing_ = wanted == SSL_ERROR_WANT_PRIVATE_KEY_OPERATION;
  Status status = Status::kNeedMore;
  if (result == 1) {
    status = Status::kDone;
  } else if (signing_ && wire_->in.size() > kMaxWaitingBytes) {
    status = fail("the peer sent too many bytes while our private key was signing");
  } else if (!signing_ && wanted != SSL_ERROR_WANT_READ) {
    status = fail();
  }
  out.append(std::move(wire_->out));
  wire_->in.compact(pool);
  return status;
}

std::string TlsHandshake::awaited() const { return signing_ ? "a signature by its own key" : "the peer"; }

TlsHandshake::Status TlsHandshake::fail(std::string_view error) {
  error_ = error;
  wire_->in.clear();
  return Status::kFailed;
}

TlsHandshake::Status TlsHandshake::fail() {
  // The error queue runs from the cause to its consequences.
  std::string_view before;
  while (const uint32_t code = ERR_get_error()) {
    const char* const reason = ERR_reason_error_string(code);
    if (!reason || reason == std::exchange(before, reason)) continue;
    error_ += (error_.empty() ? "" : ", ") + std::string(reason);
  }
  if (error_.empty()) error_ = "the connection ended";
  describe_refused_certificate();
  return Status::kFailed;
}

// Adds to a verification error what was wrong with the certificate, and its names and issuer.
void TlsHandshake::describe_refused_certificate() {
  if (error_.find("CERTIFICATE_VERIFY_FAILED") == std::string::npos) return;
  const long verdict = SSL_get_verify_result(ssl_.get());
  if (verdict == X509_V_OK) return;
  error_ += std::string(": ") + X509_verify_cert_error_string(verdict);
  const bssl::UniquePtr<X509> certificate(SSL_get_peer_certificate(ssl_.get()));
  const char* const expected =
      side_ == Side::kClient ? SSL_get_servername(ssl_.get(), TLSEXT_NAMETYPE_host_name) : nullptr;
  if (expected) error_ += "; expected \"" + std::string(expected) + "\"";
  if (!certificate) return;
  error_ += "; the certificate is for";
  const std::vector<std::string> names = names_of(certificate.get());
  for (size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) error_ += " " + printable(names[i], kNameBytes);
  if (names.size() > kNamesShown) error_ += " and " + std::to_string(names.size() - kNamesShown) + " more";
  char issuer[kNameBytes];
  X509_NAME_oneline(X509_get_issuer_name(certificate.get()), issuer, sizeof issuer);
  error_ += ", issued by " + printable(issuer, kNameBytes);
}

uint16_t TlsHandshake::version() const { return static_cast<uint16_t>(SSL_version(ssl_.get())); }

bool TlsHandshake::resumed() const { return SSL_session_reused(ssl_.get()) == 1; }

Agreement TlsHandshake::agreement() const {
  SSL* const ssl = ssl_.get();
  Agreement agreed;
  agreed.version = SSL_get_version(ssl);
  agreed.cipher = SSL_CIPHER_standard_name(SSL_get_current_cipher(ssl));
  if (const char* const name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name)) agreed.server_name = name;
  const uint8_t* alpn = nullptr;
  unsigned alpn_bytes = 0;
  SSL_get0_alpn_selected(ssl, &alpn, &alpn_bytes);
  agreed.alpn.assign(reinterpret_cast<const char*>(alpn), alpn_bytes);
  agreed.resumed = resumed();
  if (const bssl::UniquePtr<X509> certificate(SSL_get_peer_certificate(ssl)); certificate) {
    agreed.certified = true;
    agreed.common_name = common_name_of(certificate.get());
    agreed.peer_names = names_of(certificate.get());
  }
  return agreed;
}

std::unique_ptr<RecordLayer> TlsHandshake::finish() {
  SLUICE_CHECK(!SSL_in_init(ssl_.get()));
  // BoringSSL reads record by record, so it has no buffered bytes.
  SLUICE_CHECK(SSL_has_pending(ssl_.get()) == 0);
  if (version() != TLS1_3_VERSION) {
    auto layer =
        std::make_unique<Tls12RecordLayer>(tls12_state_of(ssl_.get(), side_ == Side::kClient), std::move(wire_->in));
    ssl_.reset();
    wire_.reset();
    return layer;
  }
  // The session tickets are already made. The first write puts them out.
  if (side_ == Side::kServer) SSL_write(ssl_.get(), "", 0);
  bssl::Span<const uint8_t> read, write;
  SLUICE_CHECK(bssl::SSL_get_traffic_secrets(ssl_.get(), &read, &write));
  const auto cipher = static_cast<Tls13Cipher>(SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl_.get())));
  Tls13State state;
  state.read = Tls13Secret::from(cipher, {read.data(), read.size()}, SSL_get_read_sequence(ssl_.get())).value();
  state.write = Tls13Secret::from(cipher, {write.data(), write.size()}, SSL_get_write_sequence(ssl_.get())).value();
  state.flags.is_client = side_ == Side::kClient;
  auto layer = std::make_unique<Tls13RecordLayer>(state, std::move(wire_->in), std::move(wire_->out));
  if (side_ == Side::kServer) {
    ssl_.reset();
    wire_.reset();
  }
  return layer;
}

Buffer TlsHandshake::take_arrived() {
  SLUICE_CHECK(SSL_has_pending(ssl_.get()) == 0);
  return std::move(wire_->in);
}

bssl::UniquePtr<SSL_SESSION> TlsHandshake::session() const {
  return version() == TLS1_3_VERSION ? nullptr : bssl::UniquePtr<SSL_SESSION>(SSL_get1_session(ssl_.get()));
}

std::vector<bssl::UniquePtr<SSL_SESSION>> TlsHandshake::sessions_of(Buffer&& tickets) {
  std::vector<bssl::UniquePtr<SSL_SESSION>> sessions;
  if (tickets.empty()) return sessions;
  std::vector<uint8_t> message;
  while (tickets.size() >= kMessageHeaderBytes) {
    uint8_t header[kMessageHeaderBytes];
    tickets.copy_out(0, std::as_writable_bytes(std::span(header)));
    message.resize(kMessageHeaderBytes + (size_t{header[1]} << 16 | size_t{header[2]} << 8 | header[3]));
    if (tickets.copy_out(0, std::as_writable_bytes(std::span(message))) < message.size()) break;
    tickets.trim_front(message.size());
    // Null for a malformed ticket, which is ignored: a ticket is only an offer.
    bssl::UniquePtr<SSL_SESSION> session(
        SSL_process_tls13_new_session_ticket(ssl_.get(), message.data(), message.size()));
    if (session) sessions.push_back(std::move(session));
  }
  ERR_clear_error();
  wire_->out.clear();  // BoringSSL's alerts for malformed tickets, sealed with keys that the record layer uses.
  return sessions;
}

}  // namespace sluice
