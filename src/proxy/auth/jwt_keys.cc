#include "proxy/auth/jwt_keys.h"

#include <openssl/bn.h>
#include <openssl/bytestring.h>
#include <openssl/ec_key.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/nid.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/base64.h"
#include "proxy/common/json.h"
#include "proxy/common/suggestions.h"
#include "sluice/internal/check.h"

namespace sluice {
namespace {

// RFC 7518 section 3.3: "A key of size 2048 bits or larger MUST be used". With more than kMaxRsaBits, one verification
// would take longer than all other work of a worker's turn.
constexpr unsigned kMinRsaBits = 2048, kMaxRsaBits = 8192;

struct Algorithm {
  std::string_view name, type, curve;
  const EVP_MD* (*digest)();
  bool pss = false;
};

constexpr Algorithm kAlgorithms[] = {
    {"RS256", "RSA", "", EVP_sha256},       {"RS384", "RSA", "", EVP_sha384},
    {"RS512", "RSA", "", EVP_sha512},       {"PS256", "RSA", "", EVP_sha256, true},
    {"PS384", "RSA", "", EVP_sha384, true}, {"PS512", "RSA", "", EVP_sha512, true},
    {"ES256", "EC", "P-256", EVP_sha256},   {"ES384", "EC", "P-384", EVP_sha384},
    {"EdDSA", "OKP", "Ed25519", nullptr},
};

const Algorithm& of(JwtAlgorithm algorithm) { return kAlgorithms[static_cast<size_t>(algorithm)]; }

// Returns a string member; empty if it is missing or another type.
std::string_view text_of(const JsonText& json, const JsonValue& object, std::string_view name) {
  const JsonValue* const value = json.member(object, name);
  return value && value->kind == JsonValue::Kind::kString ? value->text : std::string_view();
}

// Returns the algorithm of a key: its `alg`, else the default of its type; nullopt if it is not supported.
std::optional<JwtAlgorithm> algorithm_of(const JsonText& json, const JsonValue& jwk) {
  const std::string_view alg = text_of(json, jwk, "alg");
  for (size_t i = 0; i < std::size(kAlgorithms); ++i) {
    const Algorithm& each = kAlgorithms[i];
    if (each.type != text_of(json, jwk, "kty") || (!alg.empty() && each.name != alg)) continue;
    if (!each.curve.empty() && each.curve != text_of(json, jwk, "crv")) continue;
    return static_cast<JwtAlgorithm>(i);
  }
  return std::nullopt;
}

// Returns the decoded bytes of a base64url member; empty if it is missing or malformed.
std::vector<unsigned char> bytes_of(const JsonText& json, const JsonValue& jwk, std::string_view name) {
  const std::string_view text = text_of(json, jwk, name);
  std::vector<unsigned char> room(base64_room(text.size()));
  const auto bytes = decode_base64(Base64::kUrl, text, room);
  room.resize(bytes ? bytes->size() : 0);
  return room;
}

bssl::UniquePtr<EVP_PKEY> rsa_key(const JsonText& json, const JsonValue& jwk) {
  const std::vector<unsigned char> n = bytes_of(json, jwk, "n"), e = bytes_of(json, jwk, "e");
  const bssl::UniquePtr<BIGNUM> modulus(BN_bin2bn(n.data(), n.size(), nullptr));
  const bssl::UniquePtr<BIGNUM> exponent(BN_bin2bn(e.data(), e.size(), nullptr));
  if (!modulus || !exponent || BN_num_bits(modulus.get()) < kMinRsaBits || BN_num_bits(modulus.get()) > kMaxRsaBits) {
    return nullptr;
  }
  bssl::UniquePtr<RSA> rsa(RSA_new_public_key(modulus.get(), exponent.get()));
  bssl::UniquePtr<EVP_PKEY> key(EVP_PKEY_new());
  return rsa && key && EVP_PKEY_set1_RSA(key.get(), rsa.get()) ? std::move(key) : nullptr;
}

bssl::UniquePtr<EVP_PKEY> ec_key(const JsonText& json, const JsonValue& jwk, const EC_GROUP* group,
                                 size_t field_bytes) {
  const std::vector<unsigned char> x = bytes_of(json, jwk, "x"), y = bytes_of(json, jwk, "y");
  // RFC 7518 section 6.2.1.2: as long as the field element, including leading zeros.
  if (x.size() != field_bytes || y.size() != field_bytes) return nullptr;
  std::vector<unsigned char> point = {POINT_CONVERSION_UNCOMPRESSED};
  point.insert(point.end(), x.begin(), x.end());
  point.insert(point.end(), y.begin(), y.end());
  bssl::UniquePtr<EC_KEY> ec(EC_KEY_new());
  bssl::UniquePtr<EVP_PKEY> key(EVP_PKEY_new());
  const bool made = ec && key && EC_KEY_set_group(ec.get(), group) &&
                    EC_KEY_oct2key(ec.get(), point.data(), point.size(), nullptr) && EC_KEY_check_key(ec.get()) &&
                    EVP_PKEY_set1_EC_KEY(key.get(), ec.get());
  return made ? std::move(key) : nullptr;
}

bssl::UniquePtr<EVP_PKEY> ed25519_key(const JsonText& json, const JsonValue& jwk) {
  const std::vector<unsigned char> x = bytes_of(json, jwk, "x");
  return bssl::UniquePtr<EVP_PKEY>(EVP_PKEY_from_raw_public_key(EVP_pkey_ed25519(), x.data(), x.size()));
}

bssl::UniquePtr<EVP_PKEY> public_key(const JsonText& json, const JsonValue& jwk, JwtAlgorithm algorithm) {
  if (of(algorithm).type == "RSA") return rsa_key(json, jwk);
  if (algorithm == JwtAlgorithm::kEs256) return ec_key(json, jwk, EC_group_p256(), 32);
  if (algorithm == JwtAlgorithm::kEs384) return ec_key(json, jwk, EC_group_p384(), 48);
  return ed25519_key(json, jwk);
}

bool is_for_signatures(const JsonText& json, const JsonValue& jwk) {
  const JsonValue* const operations = json.member(jwk, "key_ops");
  if (operations) {
    const JsonValue* each = json.first(*operations);
    while (each && each->text != "verify") each = json.next(*each);
    if (!each) return false;
  }
  const std::string_view use = text_of(json, jwk, "use");
  return use.empty() || use == "sig";
}

}  // namespace

std::string_view jwt_algorithm_name(JwtAlgorithm algorithm) { return of(algorithm).name; }

bool JwtKey::verify(std::string_view text, std::span<const unsigned char> signature) const {
  const auto* const message = reinterpret_cast<const uint8_t*>(text.data());
  const Algorithm& how = of(algorithm);
  bool good = false;
  if (how.type == "EC") {
    // The signature is two concatenated numbers (RFC 7518 section 3.4), not the DER that EVP expects.
    std::array<uint8_t, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    good = EVP_Digest(message, text.size(), digest.data(), &size, how.digest(), nullptr) == 1 &&
           ECDSA_verify_p1363(digest.data(), size, signature.data(), signature.size(),
                              EVP_PKEY_get0_EC_KEY(key.get())) == 1;
  } else {
    bssl::ScopedEVP_MD_CTX context;
    EVP_PKEY_CTX* options = nullptr;
    good =
        EVP_DigestVerifyInit(context.get(), &options, how.digest ? how.digest() : nullptr, nullptr, key.get()) == 1 &&
        (!how.pss || (EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1 &&
                      EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
        EVP_DigestVerify(context.get(), signature.data(), signature.size(), message, text.size()) == 1;
  }
  ERR_clear_error();
  return good;
}

absl::StatusOr<JwtKeys> JwtKeys::parse(std::string_view text) {
  JsonText json;
  if (!json.read(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a JWK set: byte ", json.error_offset(), ": ", json.error()));
  }
  const JsonValue* const list = json.member(json.root(), "keys");
  if (!list || list->kind != JsonValue::Kind::kArray) {
    return absl::InvalidArgumentError("expected a JWK set: { \"keys\": [ ... ] }");
  }
  JwtKeys result;
  size_t number = 0;
  for (const JsonValue* jwk = json.first(*list); jwk; jwk = json.next(*jwk), ++number) {
    if (number == kMaxKeys) return absl::InvalidArgumentError(absl::StrCat("it has more than ", kMaxKeys, " keys"));
    const std::optional<JwtAlgorithm> algorithm = algorithm_of(json, *jwk);
    if (!algorithm || !is_for_signatures(json, *jwk)) continue;
    JwtKey key{std::string(text_of(json, *jwk, "kid")), *algorithm, public_key(json, *jwk, *algorithm)};
    ERR_clear_error();
    const std::string name =
        absl::StrCat("keys[", number, "] (kid ", config::in_quotes(key.id), ", ", of(*algorithm).name, ")");
    if (!key.key) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is not a usable public key; RSA keys must have ",
                                                     kMinRsaBits, " to ", kMaxRsaBits, " bits"));
    }
    const auto same = [&](const JwtKey& other) { return other.id == key.id && other.algorithm == key.algorithm; };
    if (!key.id.empty() && std::any_of(result.keys_.begin(), result.keys_.end(), same)) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": an earlier key has the same kid and algorithm"));
    }
    result.keys_.push_back(std::move(key));
  }
  if (result.keys_.empty()) {
    return absl::InvalidArgumentError(
        "it has no usable key: expected RSA, EC with P-256 or P-384, or OKP with Ed25519, for signatures");
  }
  return result;
}

const JwtKey* JwtKeys::find(std::string_view algorithm, std::string_view id) const {
  const JwtKey* found = nullptr;
  for (const JwtKey& key : keys_) {
    if (of(key.algorithm).name != algorithm || (!id.empty() && key.id != id)) continue;
    if (found) return nullptr;  // Ambiguous.
    found = &key;
  }
  return found;
}

}  // namespace sluice
