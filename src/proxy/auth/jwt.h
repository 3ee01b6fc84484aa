#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/auth/jwt_keys.h"
#include "proxy/common/json.h"
#include "proxy/config/model/access.h"

namespace sluice {

/// Why a token is rejected.
enum class JwtFault : uint8_t {
  kNone,
  kMalformed,  ///< Not three parts of base64url with JSON in the first two, or longer than JwtReader::kMaxBytes.
  kKey,        ///< No key in the file matches its `kid` and `alg`.
  kSignature,
  kExpired,  ///< It has expired, or has no `exp`.
  kNotYet,   ///< `nbf` or `iat` is in the future.
  kIssuer,
  kAudience,
};
/// The fault as the error_description of RFC 6750 section 3, for the client.
std::string_view jwt_fault_text(JwtFault fault);

/// Reads and verifies JSON Web Tokens (RFC 7519) in JWS compact form (RFC 7515). Strict: the configured keys and rules
/// determine how a token must be signed, never the token itself, and no claim is read before the signature has been
/// verified. The next token reuses its memory.
///
///     JwtReader reader;
///     if (reader.read(token, *keys, rules, now_s) != JwtFault::kNone) return refuse();
///     const JsonValue* subject = reader.claims().member(reader.claims().root(), "sub");
class JwtReader {
 public:
  static constexpr size_t kMaxBytes = size_t{8} * 1024;

  JwtFault read(std::string_view token, const JwtKeys& keys, const config::JwtAuth& rules, int64_t now_s);

  /// The claims of the last token, if it was accepted. Valid until the next read().
  const JsonText& claims() const { return claims_; }
  /// The first second at which the same token is no longer accepted.
  int64_t good_until_s() const { return good_until_s_; }

 private:
  JwtFault check_claims(const config::JwtAuth& rules, int64_t now_s);
  bool is_for(const std::vector<std::string>& audience) const;

  JsonText header_, claims_;
  std::vector<unsigned char> decoded_;
  int64_t good_until_s_ = 0;
};

}  // namespace sluice
