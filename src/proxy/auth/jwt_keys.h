#pragma once

#include <openssl/evp.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

/// The algorithms of signatures that are taken (RFC 7518 section 3.1, RFC 8037). None with a shared secret, and not
/// `none`.
enum class JwtAlgorithm : uint8_t { kRs256, kRs384, kRs512, kPs256, kPs384, kPs512, kEs256, kEs384, kEdDsa };
/// As `alg` has it.
std::string_view jwt_algorithm_name(JwtAlgorithm algorithm);

/// A public key with the one algorithm that it is for.
struct JwtKey {
  std::string id;  ///< `kid`; may be empty.
  JwtAlgorithm algorithm;
  bssl::UniquePtr<EVP_PKEY> key;

  /// Whether `signature` is this key's for `text`. 16 us for RSA of 2,048 bits, 50 us for P-256.
  bool verify(std::string_view text, std::span<const unsigned char> signature) const;
};

/// The keys of a JWK set (RFC 7517 section 5). Immutable: may be used from several threads.
class JwtKeys {
 public:
  static constexpr size_t kMaxKeys = 64;

  /// Reads the text of a JWK set. Keys that are for something else (`use: enc`, secrets, other curves) are left out; an
  /// error where none is left, where one is malformed or too weak (RSA below 2,048 bits), or where two of one algorithm
  /// have the same `kid`.
  static absl::StatusOr<JwtKeys> parse(std::string_view json);

  /// The key that a token's header names: `algorithm` must be the key's own. Without a `kid`, the only key of that
  /// algorithm. Null: there is none.
  const JwtKey* find(std::string_view algorithm, std::string_view id) const;

  const std::vector<JwtKey>& keys() const { return keys_; }

 private:
  std::vector<JwtKey> keys_;
};

}  // namespace sluice
