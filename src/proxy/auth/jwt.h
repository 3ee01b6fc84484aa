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

/// Why a token is not taken.
enum class JwtFault : uint8_t {
  kNone,
  kMalformed,  ///< Not three parts of base64url with JSON in the first two, or longer than JwtReader::kMaxBytes.
  kKey,        ///< No key of the file has its `kid` and `alg`.
  kSignature,
  kExpired,  ///< Or it does not say when it does.
  kNotYet,   ///< `nbf`, or `iat`, has yet to come.
  kIssuer,
  kAudience,
};
/// For the client: RFC 6750 section 3's error_description.
std::string_view jwt_fault_text(JwtFault fault);

/// Reads and verifies JSON Web Tokens (RFC 7519) in the compact form of a signature (RFC 7515). Strict: what is signed
/// and how comes from the keys and the rules, never from the token, and nothing of its claims is looked at before its
/// signature holds. Its memory is used again by the next token.
///
///     JwtReader reader;
///     if (reader.read(token, *keys, rules, now_s) != JwtFault::kNone) return refuse();
///     const JsonValue* subject = reader.claims().member(reader.claims().root(), "sub");
class JwtReader {
 public:
  static constexpr size_t kMaxBytes = size_t{8} * 1024;

  JwtFault read(std::string_view token, const JwtKeys& keys, const config::JwtAuth& rules, int64_t now_s);

  /// Of the token that was read last, if it was taken.
  const JsonText& claims() const { return claims_; }
  /// The first second at which the same token is taken no more.
  int64_t good_until_s() const { return good_until_s_; }

 private:
  JwtFault check_claims(const config::JwtAuth& rules, int64_t now_s);
  bool is_for(const std::vector<std::string>& audience) const;

  JsonText header_, claims_;
  std::vector<unsigned char> decoded_;
  int64_t good_until_s_ = 0;
};

}  // namespace sluice
