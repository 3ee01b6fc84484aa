#include "proxy/auth/jwt_authenticator.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "proxy/auth/credentials.h"

namespace sluice {
namespace {

constexpr size_t kMaxClaimBytes = 4096;

// Appends the text of a single value. Returns false if it cannot be part of a field value.
bool append_value(const JsonValue& value, bool in_list, std::string& text) {
  switch (value.kind) {
    case JsonValue::Kind::kTrue:
      text += "true";
      return true;
    case JsonValue::Kind::kFalse:
      text += "false";
      return true;
    case JsonValue::Kind::kNumber:
      text += value.text;
      return true;
    case JsonValue::Kind::kString: {
      const auto plain = [&](char c) {
        return static_cast<unsigned char>(c) >= ' ' && c != '\x7f' && !(in_list && c == ',');
      };
      if (!std::all_of(value.text.begin(), value.text.end(), plain)) return false;
      text += value.text;
      return true;
    }
    case JsonValue::Kind::kNull:
    case JsonValue::Kind::kArray:
    case JsonValue::Kind::kObject:
      return false;
  }
  return false;
}

}  // namespace

void claim_text(const JsonText& json, const JsonValue* claim, std::string& text) {
  text.clear();
  if (!claim) return;
  bool good = true;
  if (claim->kind == JsonValue::Kind::kArray) {
    for (const JsonValue* each = json.first(*claim); each && good; each = json.next(*each)) {
      if (!text.empty()) text += ',';
      good = append_value(*each, true, text);
    }
  } else {
    good = append_value(*claim, false, text);
  }
  // A field value has no leading or trailing spaces (RFC 9110 section 5.5).
  if (!good || text.size() > kMaxClaimBytes || text.starts_with(' ') || text.ends_with(' ')) text.clear();
}

JwtAuthenticator::JwtAuthenticator(config::Snapshot<config::JwtAuth> rules, std::string_view realm)
    : rules_(std::move(rules)), realm_challenge_(absl::StrCat("Bearer realm=\"", realm, "\"")) {}

void JwtAuthenticator::use(const JwtKeys& keys) {
  keys_ = &keys;
  cache_.clear();
  subject_ = {};
}

AuthResult JwtAuthenticator::check(ChunkPool& pool, Fields& fields, int64_t now_s) {
  const std::optional<std::string_view> token = find_token(*rules_, fields);
  if (!token) {
    challenge_ = realm_challenge_;
    return AuthResult::kRefused;
  }
  if (token->size() > JwtReader::kMaxBytes) return refuse(JwtFault::kMalformed);
  const SecretDigest digest = digest_of(*token);
  const TokenCache::Slot* slot = cache_.find(digest, now_s);
  if (!slot) {
    const JwtFault fault = reader_.read(*token, *keys_, *rules_, now_s);
    if (fault != JwtFault::kNone) return refuse(fault);
    TokenCache::Slot& made = cache_.put(digest, reader_.good_until_s());
    made.values.resize(rules_->claims.size());
    for (size_t i = 0; i < rules_->claims.size(); ++i) {
      const JsonText& claims = reader_.claims();
      claim_text(claims, claims.member(claims.root(), rules_->claims[i].claim), made.values[i]);
    }
    claim_text(reader_.claims(), reader_.claims().member(reader_.claims().root(), "sub"), made.subject);
    slot = &made;
  }
  subject_ = slot->subject;
  return add_claims(pool, *rules_, slot->values, fields) ? AuthResult::kAdmitted : AuthResult::kTooLarge;
}

bool JwtAuthenticator::add_claims(ChunkPool& pool, const config::JwtAuth& rules, const std::vector<std::string>& values,
                                  Fields& fields) {
  for (size_t i = 0; i < rules.claims.size(); ++i) {
    if (!values[i].empty() && !fields.add(pool, rules.claims[i].header.text(), values[i])) return false;
  }
  return true;
}

AuthResult JwtAuthenticator::refuse(JwtFault fault) {
  challenge_.assign(realm_challenge_);
  absl::StrAppend(&challenge_, ", error=\"invalid_token\", error_description=\"", jwt_fault_text(fault), "\"");
  return AuthResult::kRefused;
}

}  // namespace sluice
