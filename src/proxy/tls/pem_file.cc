#include "proxy/tls/pem_file.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "alts_like/secret_bytes.h"
#include "proxy/common/read_file.h"

namespace sluice {

namespace {

bssl::UniquePtr<BIO> bio_over(const std::string& text) {
  return bssl::UniquePtr<BIO>(BIO_new_mem_buf(text.data(), static_cast<ossl_ssize_t>(text.size())));
}

// Whether reading ended at the end of the file, not at a malformed entry.
bool at_end() {
  const uint32_t error = ERR_peek_last_error();
  return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

}  // namespace

absl::Status bad_file(const std::string& path, std::string_view expected) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected ", expected, reason ? absl::StrCat(" (", reason, ")") : ""));
}

absl::StatusOr<std::vector<bssl::UniquePtr<X509>>> read_chain(const std::string& path) {
  const auto text = read_file(path);
  if (!text.ok()) return text.status();
  const bssl::UniquePtr<BIO> bio = bio_over(*text);
  std::vector<bssl::UniquePtr<X509>> chain;
  ERR_clear_error();
  while (bssl::UniquePtr<X509> certificate{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    chain.push_back(std::move(certificate));
  }
  if (chain.empty()) return bad_file(path, "certificates in PEM");
  if (!at_end()) return bad_file(path, absl::StrCat("certificates in PEM; number ", chain.size() + 1, " is malformed"));
  ERR_clear_error();
  return chain;
}

absl::StatusOr<bssl::UniquePtr<EVP_PKEY>> read_private_key(const std::string& path) {
  const absl::StatusOr<SecretBytes> text = read_secret_file(path);
  if (!text.ok()) return text.status();
  const bssl::UniquePtr<BIO> bio(BIO_new_mem_buf(text->data(), static_cast<ossl_ssize_t>(text->size())));
  ERR_clear_error();
  bssl::UniquePtr<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (!key) return bad_file(path, "a private key in PEM, not encrypted");
  return key;
}

}  // namespace sluice
