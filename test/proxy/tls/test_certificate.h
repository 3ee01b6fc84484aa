// Certificates for tests, in memory and as files.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "proxy/config/model/config.h"
#include "sluice/internal/check.h"

namespace sluice::test {

/// A folder that is removed with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-XXXXXX").string();
    SLUICE_CHECK(mkdtemp(pattern.data()));
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

/// A key with a certificate that it signs itself, or that another one signs.
struct TestCertificate {
  struct Options {
    std::string subject = "localhost";
    int64_t serial = 0x80a1;                 // Its first bit is set: DER adds a zero byte.
    int64_t from_s = -3600, until_s = 3600;  // From now.
    bool is_authority = false;
  };

  explicit TestCertificate(const Options& options, const TestCertificate* issuer = nullptr) {
    bssl::UniquePtr<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nullptr));
    EVP_PKEY* made = nullptr;
    SLUICE_CHECK(EVP_PKEY_keygen_init(context.get()) == 1 &&
                 EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context.get(), NID_X9_62_prime256v1) == 1 &&
                 EVP_PKEY_keygen(context.get(), &made) == 1);
    key.reset(made);
    x509.reset(X509_new());
    X509_set_version(x509.get(), X509_VERSION_3);
    ASN1_INTEGER_set_int64(X509_get_serialNumber(x509.get()), options.serial);
    X509_gmtime_adj(X509_getm_notBefore(x509.get()), options.from_s);
    X509_gmtime_adj(X509_getm_notAfter(x509.get()), options.until_s);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x509.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const uint8_t*>(options.subject.c_str()), -1, -1, 0);
    X509_set_issuer_name(x509.get(), X509_get_subject_name(issuer ? issuer->x509.get() : x509.get()));
    if (options.is_authority) {
      bssl::UniquePtr<X509_EXTENSION> basic(
          X509V3_EXT_nconf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE"));
      SLUICE_CHECK(X509_add_ext(x509.get(), basic.get(), -1) == 1);
    }
    SLUICE_CHECK(X509_set_pubkey(x509.get(), key.get()) == 1 &&
                 X509_sign(x509.get(), issuer ? issuer->key.get() : key.get(), EVP_sha256()) > 0);
  }

  std::string pem() const {
    bssl::UniquePtr<BIO> bio(BIO_new(BIO_s_mem()));
    SLUICE_CHECK(PEM_write_bio_X509(bio.get(), x509.get()) == 1);
    return text_in(bio.get());
  }
  std::string key_pem() const {
    bssl::UniquePtr<BIO> bio(BIO_new(BIO_s_mem()));
    SLUICE_CHECK(PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
    return text_in(bio.get());
  }
  /// Writes the files `name`.pem and `name`.key, with `behind` after the certificate.
  config::TlsCertificate files(const TemporaryFolder& folder, const std::string& name,
                               const std::string& behind = "") const {
    return {.chain = folder.write(name + ".pem", pem() + behind), .key = folder.write(name + ".key", key_pem())};
  }

  bssl::UniquePtr<EVP_PKEY> key;
  bssl::UniquePtr<X509> x509;

 private:
  static std::string text_in(BIO* bio) {
    const uint8_t* data = nullptr;
    size_t size = 0;
    SLUICE_CHECK(BIO_mem_contents(bio, &data, &size) == 1);
    return {reinterpret_cast<const char*>(data), size};
  }
};

}  // namespace sluice::test
