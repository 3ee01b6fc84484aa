#include "proxy/tls/certificate_files.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pool.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pool/check.h"

namespace sluice {

namespace {

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
    if (const auto pattern = config::HostPattern::parse(written); pattern.ok()) names.push_back(pattern->text());
  }
  return names;
}

bssl::UniquePtr<BIO> bio_over(const std::string& text) {
  return bssl::UniquePtr<BIO>(BIO_new_mem_buf(text.data(), static_cast<ossl_ssize_t>(text.size())));
}

}  // namespace

absl::StatusOr<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.good() && !in.eof())
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  return text;
}

absl::Status bad_file(const std::string& path, std::string_view expected) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected ", expected, reason ? absl::StrCat(" (", reason, ")") : ""));
}

absl::StatusOr<Certificate> read_certificate(const config::TlsCertificate& files, KeySigner* signer) {
  Certificate read;
  const auto chain_text = read_file(files.chain);
  if (!chain_text.ok()) return chain_text.status();
  const bssl::UniquePtr<BIO> chain_bio = bio_over(*chain_text);
  std::vector<bssl::UniquePtr<CRYPTO_BUFFER>> chain;
  while (bssl::UniquePtr<X509> certificate{PEM_read_bio_X509(chain_bio.get(), nullptr, nullptr, nullptr)}) {
    if (chain.empty()) read.names = names_in(certificate.get());
    uint8_t* der = nullptr;
    const int size = i2d_X509(certificate.get(), &der);
    if (size < 0) return bad_file(files.chain, "certificates in PEM");
    chain.emplace_back(CRYPTO_BUFFER_new(der, static_cast<size_t>(size), nullptr));
    OPENSSL_free(der);
  }
  if (chain.empty()) return bad_file(files.chain, "certificates in PEM");

  const auto key_text = read_file(files.key);
  if (!key_text.ok()) return key_text.status();
  const bssl::UniquePtr<BIO> key_bio = bio_over(*key_text);
  bssl::UniquePtr<EVP_PKEY> key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
  if (!key) return bad_file(files.key, "a private key in PEM, not encrypted");

  read.credential.reset(SSL_CREDENTIAL_new_x509());
  std::vector<CRYPTO_BUFFER*> pointers;
  for (const auto& certificate : chain) pointers.push_back(certificate.get());
  ERR_clear_error();
  if (!SSL_CREDENTIAL_set1_cert_chain(read.credential.get(), pointers.data(), pointers.size())) {
    return bad_file(files.chain, "a certificate that TLS can use");
  }
  if (!SSL_CREDENTIAL_set1_private_key(read.credential.get(), key.get())) {
    return bad_file(files.key, absl::StrCat("the key of the certificate in ", files.chain));
  }
  if (signer && EVP_PKEY_id(key.get()) == EVP_PKEY_RSA) signer->sign_for(read.credential.get(), std::move(key));
  if (!files.ocsp.empty()) {
    const auto response = read_file(files.ocsp);
    if (!response.ok()) return response.status();
    if (response->empty()) return bad_file(files.ocsp, "an OCSP response in DER");
    bssl::UniquePtr<CRYPTO_BUFFER> buffer(
        CRYPTO_BUFFER_new(reinterpret_cast<const uint8_t*>(response->data()), response->size(), nullptr));
    SLUICE_CHECK(SSL_CREDENTIAL_set1_ocsp_response(read.credential.get(), buffer.get()) == 1);
  }
  return read;
}

}  // namespace sluice
