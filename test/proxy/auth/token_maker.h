// Keys as JWKs, and tokens signed by them.
#pragma once

#include <openssl/bn.h>
#include <openssl/digest.h>
#include <openssl/ec_key.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/nid.h>
#include <openssl/rsa.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "sluice/internal/check.h"

namespace sluice::test {

inline std::string base64url(std::string_view bytes) {
  std::string text = absl::WebSafeBase64Escape(bytes);
  while (text.ends_with('=')) text.pop_back();
  return text;
}

/// A key pair for `RS256`, `PS256` or `ES256`.
class TokenMaker {
 public:
  explicit TokenMaker(std::string algorithm, std::string id = "one", unsigned bits = 2048)
      : algorithm_(std::move(algorithm)), id_(std::move(id)), key_(EVP_PKEY_new()) {
    if (algorithm_ == "ES256") {
      const bssl::UniquePtr<EC_KEY> ec(EC_KEY_new());
      SLUICE_CHECK(EC_KEY_set_group(ec.get(), EC_group_p256()) && EC_KEY_generate_key(ec.get()));
      SLUICE_CHECK(EVP_PKEY_set1_EC_KEY(key_.get(), ec.get()));
    } else {
      const bssl::UniquePtr<BIGNUM> exponent(BN_new());
      const bssl::UniquePtr<RSA> rsa(RSA_new());
      SLUICE_CHECK(BN_set_word(exponent.get(), 65537) &&
                   RSA_generate_key_ex(rsa.get(), static_cast<int>(bits), exponent.get(), nullptr));
      SLUICE_CHECK(EVP_PKEY_set1_RSA(key_.get(), rsa.get()));
    }
  }

  /// `more`: members after the others, such as `,"use":"sig"`.
  std::string jwk(std::string_view more = "") const {
    const std::string common =
        absl::StrCat(id_.empty() ? "" : absl::StrCat(R"("kid":")", id_, "\","), R"("alg":")", algorithm_, "\"", more);
    if (const RSA* rsa = EVP_PKEY_get0_RSA(key_.get())) {
      return absl::StrCat("{", R"("kty":"RSA","n":")", number(RSA_get0_n(rsa)), R"(","e":")", number(RSA_get0_e(rsa)),
                          "\",", common, "}");
    }
    const EC_KEY* ec = EVP_PKEY_get0_EC_KEY(key_.get());
    unsigned char point[65];
    SLUICE_CHECK(EC_POINT_point2oct(EC_KEY_get0_group(ec), EC_KEY_get0_public_key(ec), POINT_CONVERSION_UNCOMPRESSED,
                                    point, sizeof point, nullptr) == sizeof point);
    const std::string_view bytes(reinterpret_cast<char*>(point), sizeof point);
    return absl::StrCat("{", R"("kty":"EC","crv":"P-256","x":")", base64url(bytes.substr(1, 32)), R"(","y":")",
                        base64url(bytes.substr(33)), "\",", common, "}");
  }
  std::string jwks() const { return absl::StrCat("{\"keys\":[", jwk(), "]}"); }

  std::string header() const {
    return absl::StrCat(R"({"alg":")", algorithm_, "\"", id_.empty() ? "" : absl::StrCat(R"(,"kid":")", id_, "\""),
                        "}");
  }
  /// A token with these claims, as JSON.
  std::string token(std::string_view claims) const { return signed_token(header(), claims); }
  std::string signed_token(std::string_view header, std::string_view claims) const {
    const std::string text = absl::StrCat(base64url(header), ".", base64url(claims));
    return absl::StrCat(text, ".", base64url(sign(text)));
  }

 private:
  static std::string number(const BIGNUM* value) {
    std::string bytes(BN_num_bytes(value), '\0');
    BN_bn2bin(value, reinterpret_cast<unsigned char*>(bytes.data()));
    return base64url(bytes);
  }

  std::string sign(std::string_view text) const {
    const auto* const message = reinterpret_cast<const unsigned char*>(text.data());
    std::string signature(static_cast<size_t>(EVP_PKEY_size(key_.get())), '\0');
    size_t size = signature.size();
    auto* const out = reinterpret_cast<unsigned char*>(signature.data());
    if (const EC_KEY* ec = EVP_PKEY_get0_EC_KEY(key_.get())) {
      unsigned char digest[32];
      SLUICE_CHECK(EVP_Digest(message, text.size(), digest, nullptr, EVP_sha256(), nullptr));
      SLUICE_CHECK(ECDSA_sign_p1363(digest, sizeof digest, out, &size, signature.size(), ec));
    } else {
      bssl::ScopedEVP_MD_CTX context;
      EVP_PKEY_CTX* options = nullptr;
      SLUICE_CHECK(EVP_DigestSignInit(context.get(), &options, EVP_sha256(), nullptr, key_.get()));
      if (algorithm_.starts_with('P')) {
        SLUICE_CHECK(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) &&
                     EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST));
      }
      SLUICE_CHECK(EVP_DigestSign(context.get(), out, &size, message, text.size()));
    }
    signature.resize(size);
    return signature;
  }

  const std::string algorithm_, id_;
  bssl::UniquePtr<EVP_PKEY> key_;
};

}  // namespace sluice::test
