#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/auth/auth_result.h"
#include "proxy/auth/jwt.h"
#include "proxy/auth/jwt_keys.h"
#include "proxy/auth/token_cache.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/http/message/fields.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// Authenticates clients by token (JWT) on one worker, and forwards claims to upstreams.
class JwtAuthenticator {
 public:
  /// `realm` is the protection space in the challenge.
  JwtAuthenticator(config::Snapshot<config::JwtAuth> rules, std::string_view realm);

  /// Replaces the keys, and clears the cache, so that all tokens are verified again. `keys` must outlive their use
  /// here.
  void use(const JwtKeys& keys);

  /// Checks the token of a request. If it is admitted, adds the fields with its claims. Precondition: use() was called.
  AuthResult check(ChunkPool& pool, Fields& fields, int64_t now_s);
  /// After kAdmitted, the subject of the token (RFC 7519 section 4.1.2) as text; empty if it has none. Valid until the
  /// next check().
  std::string_view subject() const { return subject_; }
  /// After kRefused, the value of WWW-Authenticate (RFC 6750 section 3). Valid until the next check().
  std::string_view challenge() const { return challenge_; }

 private:
  AuthResult refuse(JwtFault fault);
  static bool add_claims(ChunkPool& pool, const config::JwtAuth& rules, const std::vector<std::string>& values,
                         Fields& fields);

  const config::Snapshot<config::JwtAuth> rules_;
  const std::string realm_challenge_;
  const JwtKeys* keys_ = nullptr;
  JwtReader reader_;
  TokenCache cache_;
  std::string challenge_;
  std::string_view subject_;  // In a slot of cache_.
};

/// Sets `text` to the form in which upstreams get a claim: a string as it is, a number or boolean as written, an array
/// of those with commas between them. Empty for any other value, and if the result cannot be a field value.
void claim_text(const JsonText& json, const JsonValue* claim, std::string& text);

}  // namespace sluice
