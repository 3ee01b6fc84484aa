#include "proxy/tls/certificate_files.h"

#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pool.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <time.h>

#include <cstdint>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "alts_like/peer_certificate.h"
#include "proxy/common/read_file.h"
#include "proxy/tls/ocsp_response.h"
#include "proxy/tls/pem_file.h"
#include "proxy/tls/posix_time_text.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

using Chain = std::vector<bssl::UniquePtr<X509>>;

std::vector<std::string> names_in(const X509* certificate) {
  std::vector<std::string> names;
  for (const std::string& written : dns_names_of(certificate)) {
    // Clients cannot request a name that is not a host name.
    const auto pattern = config::HostPattern::parse(written);
    if (pattern.ok() && !pattern->is_deep()) names.push_back(pattern->text());
  }
  return names;
}

// Warns of certificates outside their validity period. Clients refuse them, but it is no error, because this machine's
// clock may be wrong.
void check_times(const Chain& chain, const std::string& path, int64_t now_s, std::vector<FileWarning>& warnings) {
  for (size_t i = 0; i < chain.size(); ++i) {
    int64_t from_s = 0, until_s = 0;
    if (!ASN1_TIME_to_posix(X509_get0_notBefore(chain[i].get()), &from_s) ||
        !ASN1_TIME_to_posix(X509_get0_notAfter(chain[i].get()), &until_s)) {
      continue;  // Clients judge malformed dates.
    }
    if (from_s <= now_s && now_s <= until_s) continue;
    warnings.push_back(
        {absl::StrCat(path, ": certificate ", i + 1, now_s < from_s ? " is not valid before " : " expired on ",
                      posix_time_text(now_s < from_s ? from_s : until_s))});
  }
}

absl::Status use_chain(SSL_CREDENTIAL* credential, const Chain& chain, const std::string& path) {
  std::vector<bssl::UniquePtr<CRYPTO_BUFFER>> buffers;
  std::vector<CRYPTO_BUFFER*> pointers;
  for (const auto& certificate : chain) {
    uint8_t* der = nullptr;
    const int size = i2d_X509(certificate.get(), &der);
    if (size < 0) return bad_file(path, "certificates in PEM");
    buffers.emplace_back(CRYPTO_BUFFER_new(der, static_cast<size_t>(size), nullptr));
    OPENSSL_free(der);
    pointers.push_back(buffers.back().get());
  }
  ERR_clear_error();
  if (SSL_CREDENTIAL_set1_cert_chain(credential, pointers.data(), pointers.size())) return absl::OkStatus();
  return bad_file(path, "a certificate that TLS can use");
}

absl::Status use_key(SSL_CREDENTIAL* credential, const config::TlsCertificate& files, KeySigner* signer) {
  auto key = read_private_key(files.key);
  if (!key.ok()) return key.status();
  if (!SSL_CREDENTIAL_set1_private_key(credential, key->get())) {
    return bad_file(files.key, absl::StrCat("the key of the certificate in ", files.chain));
  }
  if (signer && EVP_PKEY_id(key->get()) == EVP_PKEY_RSA) signer->sign_for(credential, *std::move(key));
  return absl::OkStatus();
}

// TLS works without a stapled response, so a defective one is only a warning.
absl::Status use_staple(SSL_CREDENTIAL* credential, const X509* certificate, const std::string& path, int64_t now_s,
                        std::vector<FileWarning>& warnings) {
  const auto response = read_file(path);
  if (!response.ok()) return response.status();
  const std::span<const uint8_t> der(reinterpret_cast<const uint8_t*>(response->data()), response->size());
  if (const absl::Status good = check_ocsp_response(der, certificate, now_s); !good.ok()) {
    warnings.push_back({absl::StrCat(path, ": ", good.message(), "; nothing is stapled"), /*fails_check=*/true});
    return absl::OkStatus();
  }
  const bssl::UniquePtr<CRYPTO_BUFFER> buffer(CRYPTO_BUFFER_new(der.data(), der.size(), nullptr));
  SLUICE_CHECK(SSL_CREDENTIAL_set1_ocsp_response(credential, buffer.get()) == 1);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Certificate> read_certificate(const config::TlsCertificate& files, KeySigner* signer) {
  const auto chain = read_chain(files.chain);
  if (!chain.ok()) return chain.status();
  const X509* const certificate = chain->front().get();
  const int64_t now_s = time(nullptr);
  Certificate read;
  read.names = names_in(chain->front().get());
  check_times(*chain, files.chain, now_s, read.warnings);
  read.credential.reset(SSL_CREDENTIAL_new_x509());
  SSL_CREDENTIAL* const credential = read.credential.get();
  if (absl::Status used = use_chain(credential, *chain, files.chain); !used.ok()) return used;
  if (absl::Status used = use_key(credential, files, signer); !used.ok()) return used;
  if (files.ocsp.empty()) return read;
  if (absl::Status used = use_staple(credential, certificate, files.ocsp, now_s, read.warnings); !used.ok())
    return used;
  return read;
}

}  // namespace sluice
