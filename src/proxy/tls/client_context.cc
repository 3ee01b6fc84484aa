#include "proxy/tls/client_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "alts_like/peer_certificate.h"
#include "proxy/config/model/server_name.h"
#include "proxy/tls/certificate_files.h"
#include "proxy/tls/context_options.h"
#include "proxy/tls/pem_file.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// SSL_CERT_FILE and SSL_CERT_DIR replace the system's list, as in OpenSSL's programs.
absl::Status trust_environment(SSL_CTX* context, const char* file, const char* folder) {
  ERR_clear_error();
  if (SSL_CTX_load_verify_locations(context, file, folder) == 1) return absl::OkStatus();
  return bad_file(file ? absl::StrCat(X509_get_default_cert_file_env(), "=", file)
                       : absl::StrCat(X509_get_default_cert_dir_env(), "=", folder),
                  "CA certificates in PEM");
}

absl::Status trust_system(SSL_CTX* context) {
  const char* const file = std::getenv(X509_get_default_cert_file_env());
  const char* const folder = std::getenv(X509_get_default_cert_dir_env());
  if (file || folder) return trust_environment(context, file, folder);
  // The usual paths of distributions, each of which compiles its own into OpenSSL.
  constexpr const char* kFiles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                    "/etc/ssl/cert.pem"};
  const bool found = std::any_of(std::begin(kFiles), std::end(kFiles), [&](const char* path) {
    return SSL_CTX_load_verify_locations(context, path, nullptr) == 1;
  });
  ERR_clear_error();
  if (found) return absl::OkStatus();
  return absl::NotFoundError(
      "the system has no list of certificate authorities (package ca-certificates); "
      "install it or name one under `ca`");
}

bool is_for(const X509* certificate, const std::string& name) {
  if (config::is_uri(name)) {
    const std::vector<std::string> uris = uris_of(certificate);
    return std::find(uris.begin(), uris.end(), name) != uris.end();
  }
  if (config::is_ip_address(name)) return X509_check_ip_asc(certificate, name.c_str(), /*flags=*/0) == 1;
  return X509_check_host(certificate, name.data(), name.size(), /*flags=*/0, /*peername=*/nullptr) == 1;
}

int names_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

// X509_VERIFY_PARAM knows no URIs.
int verify_with_names(X509_STORE_CTX* chain, void*) {
  if (X509_verify_cert(chain) != 1) return 0;
  auto* const ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const auto* const names = static_cast<const std::vector<std::string>*>(SSL_get_ex_data(ssl, names_index()));
  const X509* const leaf = sk_X509_value(X509_STORE_CTX_get0_chain(chain), 0);
  const bool known =
      names && std::any_of(names->begin(), names->end(), [&](const std::string& name) { return is_for(leaf, name); });
  if (!known) X509_STORE_CTX_set_error(chain, X509_V_ERR_HOSTNAME_MISMATCH);
  return known;
}

}  // namespace

absl::StatusOr<bssl::UniquePtr<SSL_CTX>> make_client_context(const config::UpstreamTls& tls,
                                                             std::vector<FileWarning>& warnings) {
  bssl::UniquePtr<SSL_CTX> made(SSL_CTX_new(TLS_method()));
  SSL_CTX* const context = made.get();
  SLUICE_CHECK(context);
  set_protocols(context, tls.min_version);
  const std::string alpn = on_the_wire(tls.alpn);
  if (!alpn.empty()) {
    SLUICE_CHECK(SSL_CTX_set_alpn_protos(context, reinterpret_cast<const uint8_t*>(alpn.data()), alpn.size()) == 0);
  }
  if (tls.verify) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    if (!tls.verify_names.empty()) SSL_CTX_set_cert_verify_callback(context, verify_with_names, nullptr);
    ERR_clear_error();
    if (tls.ca.empty()) {
      if (absl::Status trusted = trust_system(context); !trusted.ok()) return trusted;
    } else if (!SSL_CTX_load_verify_locations(context, tls.ca.c_str(), nullptr)) {
      return bad_file(tls.ca, "CA certificates in PEM");
    }
  }
  if (tls.certificate) {
    auto certificate = read_certificate(*tls.certificate);
    if (!certificate.ok()) return certificate.status();
    std::move(certificate->warnings.begin(), certificate->warnings.end(), std::back_inserter(warnings));
    SLUICE_CHECK(SSL_CTX_add1_credential(context, certificate->credential.get()) == 1);
  }
  return made;
}

void expect_server(SSL* ssl, const config::UpstreamTls& tls) {
  const bool by_names = !tls.verify_names.empty();
  if (by_names) {
    // The pointer is not changed through.
    SLUICE_CHECK(SSL_set_ex_data(ssl, names_index(), const_cast<std::vector<std::string>*>(&tls.verify_names)) == 1);
  }
  if (tls.server_name.empty()) return;
  const bool verify = tls.verify && !by_names;
  if (config::is_ip_address(tls.server_name)) {
    // An IP address must not be sent as a server name (RFC 6066 section 3).
    if (verify) SLUICE_CHECK(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), tls.server_name.c_str()) == 1);
    return;
  }
  SLUICE_CHECK(SSL_set_tlsext_host_name(ssl, tls.server_name.c_str()) == 1);
  if (verify) SLUICE_CHECK(SSL_set1_host(ssl, tls.server_name.c_str()) == 1);
}

}  // namespace sluice
