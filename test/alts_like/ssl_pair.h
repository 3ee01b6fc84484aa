// A TLS connection between two BoringSSL objects in memory, one side of which continues with our record layer.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "alts_like/tls13_record_layer.h"
#include "sluice/internal/check.h"

namespace sluice::test {

/// A key and a certificate for localhost, or `common_name`, that it signs itself.
struct Identity {
  bssl::UniquePtr<EVP_PKEY> key;
  bssl::UniquePtr<X509> certificate;

  explicit Identity(int kind = EVP_PKEY_EC, std::string_view common_name = "localhost") {
    bssl::UniquePtr<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_id(kind, nullptr));
    EVP_PKEY* made = nullptr;
    SLUICE_CHECK(EVP_PKEY_keygen_init(context.get()) == 1);
    SLUICE_CHECK((kind == EVP_PKEY_RSA
                      ? EVP_PKEY_CTX_set_rsa_keygen_bits(context.get(), 2048)
                      : EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context.get(), NID_X9_62_prime256v1)) == 1);
    SLUICE_CHECK(EVP_PKEY_keygen(context.get(), &made) == 1);
    key.reset(made);
    certificate.reset(X509_new());
    X509_set_version(certificate.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_NAME* name = X509_get_subject_name(certificate.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const uint8_t*>(common_name.data()),
                               static_cast<ossl_ssize_t>(common_name.size()), -1, 0);
    X509_set_issuer_name(certificate.get(), name);
    SLUICE_CHECK(X509_set_pubkey(certificate.get(), key.get()) == 1 &&
                 X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0);
  }
};

/// One end: an SSL object over memory BIOs.
class SslEnd {
 public:
  /// TLS 1.2 with one cipher suite, by its OpenSSL name.
  SslEnd(bool is_client, const char* cipher) : is_client_(is_client) {
    context_.reset(SSL_CTX_new(TLS_method()));
    SSL_CTX_set_max_proto_version(context_.get(), TLS1_2_VERSION);
    SLUICE_CHECK(SSL_CTX_set_strict_cipher_list(context_.get(), cipher) == 1);
    begin();
  }
  SslEnd(bool is_client, Tls13Cipher cipher) : is_client_(is_client) {
    context_.reset(SSL_CTX_new(TLS_method()));
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION);
    // BoringSSL chooses between these cipher suites by hardware; the first one is forced by the policy below.
    if (cipher == Tls13Cipher::kAes256Gcm)
      SSL_CTX_set_compliance_policy(context_.get(), ssl_compliance_policy_cnsa_202407);
    begin();
    if (cipher == Tls13Cipher::kChaCha20Poly1305) bssl::SSL_set_aes_hw_override_for_testing(ssl_.get(), false);
    if (cipher == Tls13Cipher::kAes128Gcm) bssl::SSL_set_aes_hw_override_for_testing(ssl_.get(), true);
  }

  SSL* ssl() { return ssl_.get(); }
  bool handshake() { return SSL_do_handshake(ssl_.get()) == 1; }
  /// Bytes for the peer.
  std::string take_output() {
    const uint8_t* data = nullptr;
    size_t size = 0;
    SLUICE_CHECK(BIO_mem_contents(SSL_get_wbio(ssl_.get()), &data, &size) == 1);
    std::string bytes(reinterpret_cast<const char*>(data), size);
    BIO_reset(SSL_get_wbio(ssl_.get()));
    return bytes;
  }
  void give_input(std::string_view bytes) {
    if (!bytes.empty()) {
      SLUICE_CHECK(BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), static_cast<int>(bytes.size())) ==
                   static_cast<int>(bytes.size()));
    }
  }
  void write(std::string_view text) {
    SLUICE_CHECK(SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())) == static_cast<int>(text.size()));
  }
  /// All data that can be read now.
  std::string read() {
    std::string text;
    std::array<char, 16384> block;
    for (int n; (n = SSL_read(ssl_.get(), block.data(), block.size())) > 0;)
      text.append(block.data(), static_cast<size_t>(n));
    last_error = SSL_get_error(ssl_.get(), -1);
    return text;
  }
  /// The state with which our record layer continues in the place of this end.
  Tls13State state() {
    bssl::Span<const uint8_t> read, write;
    SLUICE_CHECK(bssl::SSL_get_traffic_secrets(ssl_.get(), &read, &write));
    const auto cipher = static_cast<Tls13Cipher>(SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl_.get())));
    Tls13State state;
    state.read = Tls13Secret::from(cipher, {read.data(), read.size()}, SSL_get_read_sequence(ssl_.get())).value();
    state.write = Tls13Secret::from(cipher, {write.data(), write.size()}, SSL_get_write_sequence(ssl_.get())).value();
    state.flags.is_client = is_client_;
    return state;
  }

  int last_error = SSL_ERROR_NONE;

 private:
  void begin() {
    if (!is_client_) {
      static const Identity identity;
      SLUICE_CHECK(SSL_CTX_use_certificate(context_.get(), identity.certificate.get()) == 1 &&
                   SSL_CTX_use_PrivateKey(context_.get(), identity.key.get()) == 1);
    }
    ssl_.reset(SSL_new(context_.get()));
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(ssl_.get(), in, out);
    is_client_ ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  }

  bool is_client_;
  bssl::UniquePtr<SSL_CTX> context_;
  bssl::UniquePtr<SSL> ssl_;
};

/// Both ends after their handshake. The server's tickets are in flight to the client: `for_client`.
struct SslPair {
  explicit SslPair(Tls13Cipher cipher) : client(true, cipher), server(false, cipher) {
    for (int i = 0; i < 10; ++i) {
      const bool client_done = client.handshake();
      if (server.handshake() && client_done) break;
      server.give_input(client.take_output());
      client.give_input(server.take_output());
    }
    SLUICE_CHECK(!SSL_in_init(client.ssl()) && !SSL_in_init(server.ssl()));
    server.give_input(client.take_output());
    SSL_write(server.ssl(), "", 0);  // Tickets are flushed with the first write.
    for_client = server.take_output();
  }
  SslEnd client;
  SslEnd server;
  std::string for_client;
};

}  // namespace sluice::test
