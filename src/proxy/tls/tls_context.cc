#include "proxy/tls/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pool.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "pool/check.h"

namespace sluice {

namespace {

using config::ClientCertificate;
using config::TlsVersion;

absl::StatusOr<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.good() && !in.eof())
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  return text;
}

// What BoringSSL found wrong with a file.
absl::Status bad_file(const std::string& path, std::string_view expected) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected ", expected, reason ? absl::StrCat(" (", reason, ")") : ""));
}

struct Loaded {
  bssl::UniquePtr<SSL_CREDENTIAL> credential;
  std::vector<std::string> names;
};

// The host names that a certificate is for: those of its subjectAltName (RFC 9525 section 6.3; the common name no
// longer counts).
std::vector<std::string> names_in(X509* certificate) {
  std::vector<std::string> names;
  bssl::UniquePtr<GENERAL_NAMES> alternatives(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (size_t i = 0; alternatives && i < sk_GENERAL_NAME_num(alternatives.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(alternatives.get(), i);
    if (name->type != GEN_DNS) continue;
    const ASN1_STRING* text = name->d.dNSName;
    const std::string_view written(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                                   static_cast<size_t>(ASN1_STRING_length(text)));
    // What is no name of a host cannot be asked for.
    if (const auto pattern = config::SniPattern::parse(written); pattern.ok()) names.push_back(pattern->text());
  }
  return names;
}

absl::StatusOr<Loaded> load_certificate(const config::TlsCertificate& files) {
  Loaded loaded;
  const auto chain_text = read_file(files.chain);
  if (!chain_text.ok()) return chain_text.status();
  bssl::UniquePtr<BIO> bio(BIO_new_mem_buf(chain_text->data(), static_cast<ossl_ssize_t>(chain_text->size())));
  std::vector<bssl::UniquePtr<CRYPTO_BUFFER>> chain;
  while (bssl::UniquePtr<X509> certificate{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    if (chain.empty()) loaded.names = names_in(certificate.get());
    uint8_t* der = nullptr;
    const int size = i2d_X509(certificate.get(), &der);
    if (size < 0) return bad_file(files.chain, "certificates in PEM");
    chain.emplace_back(CRYPTO_BUFFER_new(der, static_cast<size_t>(size), nullptr));
    OPENSSL_free(der);
  }
  if (chain.empty()) return bad_file(files.chain, "certificates in PEM");

  const auto key_text = read_file(files.key);
  if (!key_text.ok()) return key_text.status();
  bssl::UniquePtr<BIO> key_bio(BIO_new_mem_buf(key_text->data(), static_cast<ossl_ssize_t>(key_text->size())));
  bssl::UniquePtr<EVP_PKEY> key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
  if (!key) return bad_file(files.key, "a private key in PEM, not encrypted");

  loaded.credential.reset(SSL_CREDENTIAL_new_x509());
  std::vector<CRYPTO_BUFFER*> pointers;
  for (const auto& certificate : chain) pointers.push_back(certificate.get());
  ERR_clear_error();
  if (!SSL_CREDENTIAL_set1_cert_chain(loaded.credential.get(), pointers.data(), pointers.size())) {
    return bad_file(files.chain, "a certificate that TLS can use");
  }
  if (!SSL_CREDENTIAL_set1_private_key(loaded.credential.get(), key.get())) {
    return bad_file(files.key, absl::StrCat("the key of the certificate in ", files.chain));
  }
  if (!files.ocsp.empty()) {
    const auto response = read_file(files.ocsp);
    if (!response.ok()) return response.status();
    if (response->empty()) return bad_file(files.ocsp, "an OCSP response in DER");
    bssl::UniquePtr<CRYPTO_BUFFER> buffer(
        CRYPTO_BUFFER_new(reinterpret_cast<const uint8_t*>(response->data()), response->size(), nullptr));
    SLUICE_CHECK(SSL_CREDENTIAL_set1_ocsp_response(loaded.credential.get(), buffer.get()) == 1);
  }
  return loaded;
}

void apply_version(SSL_CTX* context, TlsVersion version) {
  SSL_CTX_set_min_proto_version(context, version == TlsVersion::k13 ? TLS1_3_VERSION : TLS1_2_VERSION);
}

std::string on_the_wire(const std::vector<std::string>& protocols) {
  std::string wire;
  for (const std::string& protocol : protocols) {
    wire.push_back(static_cast<char>(protocol.size()));
    wire += protocol;
  }
  return wire;
}

}  // namespace

// ---- Server ----

TlsServerContext::TlsServerContext(const config::ListenerTls& config)
    : config_(config), context_(SSL_CTX_new(TLS_method())), alpn_(on_the_wire(config.alpn)) {
  SLUICE_CHECK(context_);
}

TlsServerContext::~TlsServerContext() = default;

absl::StatusOr<std::unique_ptr<TlsServerContext>> TlsServerContext::make(const config::ListenerTls& config) {
  std::unique_ptr<TlsServerContext> made(new TlsServerContext(config));
  const absl::Status status = made->load();
  if (!status.ok()) return status;
  return made;
}

absl::Status TlsServerContext::load() {
  SSL_CTX* const context = context_.get();
  for (const config::TlsCertificate& files : config_.certificates) {
    auto loaded = load_certificate(files);
    if (!loaded.ok()) return loaded.status();
    credentials_.push_back(std::move(loaded->credential));
    names_.push_back(std::move(loaded->names));
  }
  std::vector<NamePattern> patterns;
  for (uint32_t i = 0; i < names_.size(); ++i) {
    for (const std::string& name : names_[i]) patterns.push_back({name, i});
  }
  by_name_ = NameTable(patterns);

  apply_version(context, config_.min_version);
  // Sessions live in tickets alone: nothing is kept here for a client that went.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  const uint8_t id[] = {'s', 'l', 'u', 'i', 'c', 'e'};
  SSL_CTX_set_session_id_context(context, id, sizeof id);
  SSL_CTX_set_cert_cb(context, &TlsServerContext::choose_certificate, this);
  if (!alpn_.empty()) SSL_CTX_set_alpn_select_cb(context, &TlsServerContext::choose_protocol, this);
  if (config_.client_certificate != ClientCertificate::kOff) {
    ERR_clear_error();
    if (!SSL_CTX_load_verify_locations(context, config_.client_ca.c_str(), nullptr)) {
      return bad_file(config_.client_ca, "certificates of authorities in PEM");
    }
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(config_.client_ca.c_str()));
    SSL_CTX_set_verify(context,
                       config_.client_certificate == ClientCertificate::kRequire
                           ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                           : SSL_VERIFY_PEER,
                       nullptr);
  }
  return absl::OkStatus();
}

// Offers BoringSSL the certificates for the name; it takes the first whose key the client can use.
int TlsServerContext::choose_certificate(SSL* ssl, void* self) {
  const TlsServerContext& context = *static_cast<const TlsServerContext*>(self);
  const char* sent = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  std::string name = absl::AsciiStrToLower(sent ? sent : "");
  if (name.ends_with('.')) name.pop_back();
  const NameTable::Match match = context.by_name_.find(name);
  const auto add = [&](size_t i) { return SSL_add1_credential(ssl, context.credentials_[i].get()) == 1; };
  bool added = true;
  for (const uint32_t i : match.exact) added = added && add(i);
  for (const uint32_t i : match.wildcard) added = added && add(i);
  if (match.best() == NameTable::kNone) {
    // The first, and those for the same names with keys of another kind.
    for (size_t i = 0; i < context.credentials_.size(); ++i) {
      if (context.names_[i] == context.names_[0]) added = added && add(i);
    }
  }
  return added ? 1 : 0;
}

int TlsServerContext::choose_protocol(SSL*, const uint8_t** out, uint8_t* out_size, const uint8_t* offered,
                                      unsigned size, void* self) {
  const std::string& ours = static_cast<const TlsServerContext*>(self)->alpn_;
  uint8_t* chosen = nullptr;
  const int result = SSL_select_next_proto(&chosen, out_size, reinterpret_cast<const uint8_t*>(ours.data()),
                                           static_cast<unsigned>(ours.size()), offered, size);
  *out = chosen;
  // RFC 7301 section 3.2: no_application_protocol.
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// ---- Client ----

TlsClientContext::TlsClientContext(const config::UpstreamTls& config)
    : config_(config), context_(SSL_CTX_new(TLS_method())) {
  SLUICE_CHECK(context_);
}

TlsClientContext::~TlsClientContext() = default;

absl::StatusOr<std::unique_ptr<TlsClientContext>> TlsClientContext::make(const config::UpstreamTls& config) {
  std::unique_ptr<TlsClientContext> made(new TlsClientContext(config));
  const absl::Status status = made->load();
  if (!status.ok()) return status;
  return made;
}

absl::Status TlsClientContext::load() {
  SSL_CTX* const context = context_.get();
  apply_version(context, config_.min_version);
  const std::string alpn = on_the_wire(config_.alpn);
  if (!alpn.empty()) {
    SLUICE_CHECK(SSL_CTX_set_alpn_protos(context, reinterpret_cast<const uint8_t*>(alpn.data()), alpn.size()) == 0);
  }
  if (config_.verify) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    ERR_clear_error();
    if (config_.ca.empty()) {
      // Where Debian and its like keep them; OpenSSL's own default is compiled in by each distribution.
      constexpr const char* kSystem[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                         "/etc/ssl/cert.pem"};
      const bool found = std::any_of(std::begin(kSystem), std::end(kSystem), [&](const char* path) {
        return SSL_CTX_load_verify_locations(context, path, nullptr) == 1;
      });
      ERR_clear_error();
      if (!found) {
        return absl::NotFoundError(
            "the system has no list of certificate authorities (package ca-certificates); "
            "install it or name one under `ca`");
      }
    } else if (!SSL_CTX_load_verify_locations(context, config_.ca.c_str(), nullptr)) {
      return bad_file(config_.ca, "certificates of authorities in PEM");
    }
  }
  if (config_.certificate) {
    const auto loaded = load_certificate(*config_.certificate);
    if (!loaded.ok()) return loaded.status();
    SLUICE_CHECK(SSL_CTX_add1_credential(context, loaded->credential.get()) == 1);
  }
  return absl::OkStatus();
}

void TlsClientContext::prepare(SSL* ssl) const {
  if (config_.server_name.empty()) return;
  SLUICE_CHECK(SSL_set_tlsext_host_name(ssl, config_.server_name.c_str()) == 1);
  if (config_.verify) SLUICE_CHECK(SSL_set1_host(ssl, config_.server_name.c_str()) == 1);
}

absl::Status tls_error(std::string_view kind, std::string_view name, const absl::Status& error) {
  return absl::Status(error.code(), absl::StrCat(kind, " \"", name, "\": tls: ", error.message()));
}

absl::Status check_tls_files(const config::Config& config) {
  for (const config::Listener& listener : config.listeners) {
    if (!listener.tls) continue;
    const auto context = TlsServerContext::make(*listener.tls);
    if (!context.ok()) return tls_error("listener", listener.name, context.status());
  }
  for (const config::Upstream& upstream : config.upstreams) {
    if (!upstream.tls) continue;
    const auto context = TlsClientContext::make(*upstream.tls);
    if (!context.ok()) return tls_error("upstream", upstream.name, context.status());
  }
  return absl::OkStatus();
}

}  // namespace sluice
