#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pool/chunk_pool.h"
#include "proxy/auth/auth_result.h"
#include "proxy/auth/jwt.h"
#include "proxy/auth/jwt_keys.h"
#include "proxy/auth/token_cache.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/fields.h"

namespace sluice {

/// Admits those with a good token, on one worker, and has upstreams told its claims.
class JwtAuthenticator {
 public:
  /// `realm` is what a client is told that the token is for.
  JwtAuthenticator(const config::JwtAuth& rules, std::string_view realm);

  /// The keys from now on: what was taken by others is looked at anew.
  void use(const JwtKeys& keys);

  /// Changes the fields where it is admitted: claims are put in. Precondition: use() was called.
  AuthResult check(ChunkPool& pool, Fields& fields, int64_t now_s);
  /// After kRefused: the value of WWW-Authenticate (RFC 6750 section 3). Good until the next check.
  std::string_view challenge() const { return challenge_; }

 private:
  AuthResult refuse(JwtFault fault);
  static bool tell(ChunkPool& pool, const config::JwtAuth& rules, const std::vector<std::string>& values,
                   Fields& fields);

  const config::JwtAuth& rules_;
  const std::string realm_challenge_;
  const JwtKeys* keys_ = nullptr;
  JwtReader reader_;
  TokenCache cache_;
  std::string challenge_;
};

/// What upstreams are told of a claim: a text as it is, a number or a truth as it is written, a list of those with
/// commas between them. Empty where it is nothing of the kind, or cannot be a field's value.
void claim_text(const JsonText& json, const JsonValue* claim, std::string& text);

}  // namespace sluice
