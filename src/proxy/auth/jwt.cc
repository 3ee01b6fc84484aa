#include "proxy/auth/jwt.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>

#include "absl/strings/numbers.h"
#include "proxy/common/base64.h"

namespace sluice {
namespace {

using Kind = JsonValue::Kind;

std::string_view as_text(std::span<const unsigned char> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Removes and returns the text before the next dot, and removes the dot.
std::string_view take_part(std::string_view& rest) {
  const std::string_view part = rest.substr(0, rest.find('.'));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return part;
}

std::string_view text_of(const JsonText& json, std::string_view name) {
  const JsonValue* const value = json.member(json.root(), name);
  return value && value->kind == Kind::kString ? value->text : std::string_view();
}

// A NumericDate (RFC 7519 section 2): seconds, with an optional fraction.
std::optional<double> seconds_of(const JsonValue& value) {
  double seconds = 0;
  if (value.kind != Kind::kNumber || !absl::SimpleAtod(value.text, &seconds) || !std::isfinite(seconds)) {
    return std::nullopt;
  }
  return seconds;
}

}  // namespace

std::string_view jwt_fault_text(JwtFault fault) {
  switch (fault) {
    case JwtFault::kNone:
      break;
    case JwtFault::kMalformed:
      return "the token is malformed";
    case JwtFault::kKey:
      return "no key matches the token";
    case JwtFault::kSignature:
      return "the signature is invalid";
    case JwtFault::kExpired:
      return "the token has expired";
    case JwtFault::kNotYet:
      return "the token is not valid yet";
    case JwtFault::kIssuer:
      return "the issuer is not accepted";
    case JwtFault::kAudience:
      return "the token is for another audience";
  }
  return "";
}

JwtFault JwtReader::read(std::string_view token, const JwtKeys& keys, const config::JwtAuth& rules, int64_t now_s) {
  if (token.size() > kMaxBytes) return JwtFault::kMalformed;
  decoded_.resize(base64_room(kMaxBytes));
  std::string_view rest = token;
  const std::string_view header = take_part(rest), payload = take_part(rest), signature = rest;
  // Requires exactly three non-empty parts. A further dot fails later, because it is not in the signature's alphabet.
  if (header.empty() || payload.empty() || signature.empty()) return JwtFault::kMalformed;
  const auto header_bytes = decode_base64(Base64::kUrl, header, decoded_);
  if (!header_bytes || !header_.read(as_text(*header_bytes)) || header_.root().kind != Kind::kObject) {
    return JwtFault::kMalformed;
  }
  // Extensions listed in `crit` must be understood (RFC 7515 section 4.1.11), and none is supported.
  if (header_.member(header_.root(), "crit")) return JwtFault::kMalformed;
  const JwtKey* const key = keys.find(text_of(header_, "alg"), text_of(header_, "kid"));
  if (!key) return JwtFault::kKey;

  const auto signature_bytes = decode_base64(Base64::kUrl, signature, decoded_);
  if (!signature_bytes) return JwtFault::kMalformed;
  if (!key->verify(token.substr(0, header.size() + 1 + payload.size()), *signature_bytes)) return JwtFault::kSignature;

  const auto claims_bytes = decode_base64(Base64::kUrl, payload, decoded_);
  if (!claims_bytes || !claims_.read(as_text(*claims_bytes)) || claims_.root().kind != Kind::kObject) {
    return JwtFault::kMalformed;
  }
  return check_claims(rules, now_s);
}

JwtFault JwtReader::check_claims(const config::JwtAuth& rules, int64_t now_s) {
  const auto leeway_s = static_cast<double>(std::chrono::duration_cast<std::chrono::seconds>(rules.leeway).count());
  const auto now = static_cast<double>(now_s);
  const JsonValue* const expires = claims_.member(claims_.root(), "exp");
  if (!expires) return JwtFault::kExpired;
  const std::optional<double> until_s = seconds_of(*expires);
  if (!until_s) return JwtFault::kMalformed;
  if (now >= *until_s + leeway_s) return JwtFault::kExpired;
  for (const std::string_view name : {"nbf", "iat"}) {
    const JsonValue* const begins = claims_.member(claims_.root(), name);
    if (!begins) continue;
    const std::optional<double> from_s = seconds_of(*begins);
    if (!from_s) return JwtFault::kMalformed;
    if (now + leeway_s < *from_s) return JwtFault::kNotYet;
  }
  if (!rules.issuer.empty() && text_of(claims_, "iss") != rules.issuer) return JwtFault::kIssuer;
  if (!rules.audience.empty() && !is_for(rules.audience)) return JwtFault::kAudience;
  constexpr double kFarAway = 1e15;
  good_until_s_ = static_cast<int64_t>(std::ceil(std::min(*until_s + leeway_s, kFarAway)));
  return JwtFault::kNone;
}

// RFC 7519 section 4.1.3: `aud` is a string or an array of strings.
bool JwtReader::is_for(const std::vector<std::string>& audience) const {
  const auto is_one = [&](const JsonValue& value) {
    return value.kind == Kind::kString && std::find(audience.begin(), audience.end(), value.text) != audience.end();
  };
  const JsonValue* const aud = claims_.member(claims_.root(), "aud");
  if (!aud) return false;
  if (aud->kind != Kind::kArray) return is_one(*aud);
  const JsonValue* each = claims_.first(*aud);
  while (each && !is_one(*each)) each = claims_.next(*each);
  return each != nullptr;
}

}  // namespace sluice
