#include "proxy/auth/jwt.h"

#include <gtest/gtest.h>
#include <openssl/hmac.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/common/base64.h"
#include "test/proxy/auth/token_maker.h"

namespace sluice {
namespace {

using test::base64url;
using test::TokenMaker;

constexpr int64_t kNow = 1'800'000'000;

const TokenMaker& rsa_maker() {
  static const TokenMaker maker("RS256");
  return maker;
}
const TokenMaker& ec_maker() {
  static const TokenMaker maker("ES256");
  return maker;
}

JwtKeys keys_of(std::string_view jwks) {
  absl::StatusOr<JwtKeys> keys = JwtKeys::parse(jwks);
  EXPECT_TRUE(keys.ok()) << keys.status();
  return keys.ok() ? *std::move(keys) : JwtKeys();
}

std::string claims(std::string_view more = "", int64_t expires_s = kNow + 300) {
  return absl::StrCat(R"({"sub":"me","exp":)", expires_s, more, "}");
}

JwtFault read(std::string_view token, const JwtKeys& keys, const config::JwtAuth& rules = {}) {
  JwtReader reader;
  return reader.read(token, keys, rules, kNow);
}

bool holds(const JwtKeys& keys, std::string_view token) {
  const size_t dot = token.rfind('.');
  std::array<unsigned char, 512> room;
  const auto signature = decode_base64(Base64::kUrl, token.substr(dot + 1), room);
  return signature && keys.keys().front().verify(token.substr(0, dot), *signature);
}

// RFC 7515 appendix A.2 and A.3, RFC 8037 appendix A.
TEST(JwtKeys, RfcExamples) {
  const std::string rsa_token =
      "eyJhbGciOiJSUzI1NiJ9."
      "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
      "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_"
      "O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAc"
      "QjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-"
      "eOkHWEs"
      "qtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
  const JwtKeys rsa = keys_of(
      R"({"keys":[{"kty":"RSA","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}]})");
  EXPECT_TRUE(holds(rsa, rsa_token));
  const std::string ec_token =
      "eyJhbGciOiJFUzI1NiJ9."
      "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
      "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
  const JwtKeys ec = keys_of(
      R"({"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})");
  EXPECT_TRUE(holds(ec, ec_token));
  const JwtKeys ed =
      keys_of(R"({"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]})");
  EXPECT_TRUE(
      holds(ed,
            "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWb"
            "hijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"));
  EXPECT_FALSE(holds(rsa, ec_token));
  EXPECT_FALSE(holds(ec, rsa_token));
}

TEST(JwtKeys, EachAlgorithm) {
  for (const std::string_view algorithm : {"RS256", "PS256", "ES256"}) {
    const TokenMaker maker{std::string(algorithm)};
    const JwtKeys keys = keys_of(maker.jwks());
    ASSERT_EQ(keys.keys().size(), 1u);
    EXPECT_EQ(jwt_algorithm_name(keys.keys()[0].algorithm), algorithm);
    EXPECT_EQ(read(maker.token(claims()), keys), JwtFault::kNone) << algorithm;
    EXPECT_EQ(read(TokenMaker{std::string(algorithm)}.token(claims()), keys), JwtFault::kSignature) << algorithm;
  }
}

TEST(JwtKeys, ChosenByKidAndAlgorithm) {
  const TokenMaker other("ES256", "other"), nameless("ES256", "");
  const JwtKeys keys =
      keys_of(absl::StrCat("{\"keys\":[", ec_maker().jwk(), ",", other.jwk(), ",", rsa_maker().jwk(), "]}"));
  EXPECT_EQ(read(ec_maker().token(claims()), keys), JwtFault::kNone);
  EXPECT_EQ(read(other.token(claims()), keys), JwtFault::kNone);
  EXPECT_EQ(read(rsa_maker().token(claims()), keys), JwtFault::kNone);
  // Another key's kid, an unknown kid, and no kid where several keys match.
  EXPECT_EQ(read(ec_maker().signed_token(R"({"alg":"ES256","kid":"other"})", claims()), keys), JwtFault::kSignature);
  EXPECT_EQ(read(ec_maker().signed_token(R"({"alg":"ES256","kid":"third"})", claims()), keys), JwtFault::kKey);
  EXPECT_EQ(read(ec_maker().signed_token(R"({"alg":"ES256"})", claims()), keys), JwtFault::kKey);
  EXPECT_EQ(read(rsa_maker().signed_token(R"({"alg":"RS256"})", claims()), keys), JwtFault::kNone);
  EXPECT_EQ(read(nameless.token(claims()), keys_of(nameless.jwks())), JwtFault::kNone);
}

TEST(JwtKeys, SetRequirements) {
  const auto error = [](std::string_view text) {
    const absl::StatusOr<JwtKeys> keys = JwtKeys::parse(text);
    return keys.ok() ? "" : std::string(keys.status().message());
  };
  EXPECT_EQ(error("{"), "expected a JWK set: byte 1: the name of a member is missing");
  EXPECT_EQ(error("[]"), "expected a JWK set: { \"keys\": [ ... ] }");
  const std::string none =
      "it has no usable key: expected RSA, EC with P-256 or P-384, or OKP with Ed25519, for signatures";
  EXPECT_EQ(error(R"({"keys":[]})"), none);
  EXPECT_EQ(error(R"({"keys":[{"kty":"oct","k":"c2VjcmV0","alg":"HS256"},{"kty":"RSA","alg":"RSA-OAEP"},1,null]})"),
            none);
  EXPECT_EQ(error(absl::StrCat("{\"keys\":[", ec_maker().jwk(R"(,"use":"enc")"), "]}")), none);
  EXPECT_EQ(error(absl::StrCat("{\"keys\":[", ec_maker().jwk(R"(,"key_ops":["sign"])"), "]}")), none);
  EXPECT_EQ(error(absl::StrCat("{\"keys\":[", ec_maker().jwk(R"(,"use":"sig","key_ops":["verify"])"), "]}")), "");
  EXPECT_EQ(error(absl::StrCat("{\"keys\":[", ec_maker().jwk(), ",", ec_maker().jwk(), "]}")),
            "keys[1] (kid \"one\", ES256): an earlier key has the same kid and algorithm");
  EXPECT_EQ(error(TokenMaker("RS256", "weak", 1024).jwks()),
            "keys[0] (kid \"weak\", RS256) is not a usable public key; RSA keys must have 2048 to 8192 bits");
  EXPECT_EQ(
      error(R"({"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"AAAA"}]})"),
      "keys[0] (kid \"\", ES256) is not a usable public key; RSA keys must have 2048 to 8192 bits");
  // Not on the curve.
  EXPECT_NE(
      error(
          R"({"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"}]})"),
      "");
}

// "alg" is the token's claim, but the key's own algorithm counts: "none", and a secret that is the public key, are
// refused.
TEST(Jwt, AlgorithmComesFromTheKey) {
  const JwtKeys keys = keys_of(rsa_maker().jwks());
  for (const std::string_view name : {"none", "None", "NONE", "HS256", "RS384", "PS256", "ES256", "rs256", ""}) {
    const std::string header = absl::StrCat(R"({"alg":")", name, R"(","kid":"one"})");
    EXPECT_EQ(read(rsa_maker().signed_token(header, claims()), keys), JwtFault::kKey) << name;
  }
  EXPECT_EQ(read(rsa_maker().signed_token(R"({"kid":"one"})", claims()), keys), JwtFault::kKey);
  EXPECT_EQ(read(rsa_maker().signed_token(R"({"kid":"one","alg":1})", claims()), keys), JwtFault::kKey);
  const std::string unsigned_token = absl::StrCat(base64url(R"({"alg":"none"})"), ".", base64url(claims()), ".");
  EXPECT_EQ(read(unsigned_token, keys), JwtFault::kMalformed);
  const std::string text = absl::StrCat(base64url(R"({"alg":"HS256","kid":"one"})"), ".", base64url(claims()));
  const std::string secret = rsa_maker().jwk();
  unsigned char mac[32];
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), secret.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       mac, &size);
  EXPECT_EQ(read(absl::StrCat(text, ".", base64url({reinterpret_cast<char*>(mac), size})), keys), JwtFault::kKey);
}

TEST(Jwt, AnyChangeBreaksIt) {
  const JwtKeys keys = keys_of(ec_maker().jwks());
  const std::string token = ec_maker().token(claims());
  ASSERT_EQ(read(token, keys), JwtFault::kNone);
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_NE(read(changed, keys), JwtFault::kNone) << i;
    changed.erase(i, 1);
    EXPECT_NE(read(changed, keys), JwtFault::kNone) << i;
  }
  EXPECT_EQ(read(token + ".", keys), JwtFault::kMalformed);
  EXPECT_NE(read(token + "A", keys), JwtFault::kNone);
  EXPECT_EQ(read(token + "AAAA", keys), JwtFault::kSignature);
}

TEST(Jwt, MalformedTokens) {
  const JwtKeys keys = keys_of(ec_maker().jwks());
  for (const std::string_view token : {"", ".", "..", "a.b.c", "a.b", "....", "e30.e30.", "e30=.e30.e30"}) {
    EXPECT_EQ(read(token, keys), JwtFault::kMalformed) << token;
  }
  EXPECT_EQ(read(std::string(JwtReader::kMaxBytes + 1, 'a'), keys), JwtFault::kMalformed);
  const std::string header = ec_maker().header();
  for (const std::string_view bad : {"[]", "1", "{", "{\"exp\":1800000300,\"exp\":1}", "\xff"}) {
    EXPECT_EQ(read(ec_maker().signed_token(header, bad), keys), JwtFault::kMalformed) << bad;
  }
  for (const std::string_view bad :
       {R"(["ES256"])", R"({"alg":"ES256","alg":"ES256"})", R"({"alg":"ES256","crit":["exp"]})",
        R"({"alg":"ES256","b64":false,"crit":["b64"]})"}) {
    EXPECT_EQ(read(ec_maker().signed_token(bad, claims()), keys), JwtFault::kMalformed) << bad;
  }
  // Malformed numbers, which another reader may interpret as another time.
  for (const std::string_view exp : {"\"1800000300\"", "null", "true", "[1800000300]", "1e999"}) {
    EXPECT_EQ(read(ec_maker().token(absl::StrCat("{\"exp\":", exp, "}")), keys), JwtFault::kMalformed) << exp;
  }
}

TEST(Jwt, Times) {
  const JwtKeys keys = keys_of(ec_maker().jwks());
  config::JwtAuth rules;
  rules.leeway = std::chrono::seconds(10);
  const auto at = [&](std::string_view payload) {
    return read(ec_maker().token(absl::StrCat("{", payload, "}")), keys, rules);
  };
  EXPECT_EQ(at(absl::StrCat("\"exp\":", kNow - 9)), JwtFault::kNone);
  EXPECT_EQ(at(absl::StrCat("\"exp\":", kNow - 10)), JwtFault::kExpired);
  EXPECT_EQ(at(absl::StrCat("\"exp\":", kNow - 11, ".5")), JwtFault::kExpired);
  EXPECT_EQ(at("\"exp\":1.8e9"), JwtFault::kNone);
  EXPECT_EQ(at("\"sub\":\"me\""), JwtFault::kExpired);  // It must have an expiration time.
  const std::string good = absl::StrCat("\"exp\":", kNow + 300);
  EXPECT_EQ(at(absl::StrCat(good, ",\"nbf\":", kNow + 10)), JwtFault::kNone);
  EXPECT_EQ(at(absl::StrCat(good, ",\"nbf\":", kNow + 11)), JwtFault::kNotYet);
  EXPECT_EQ(at(absl::StrCat(good, ",\"iat\":", kNow + 11)), JwtFault::kNotYet);
  EXPECT_EQ(at(absl::StrCat(good, ",\"iat\":", kNow - 100'000)), JwtFault::kNone);
  JwtReader reader;
  ASSERT_EQ(reader.read(ec_maker().token(absl::StrCat("{", good, "}")), keys, rules, kNow), JwtFault::kNone);
  EXPECT_EQ(reader.good_until_s(), kNow + 310);
  ASSERT_EQ(reader.read(ec_maker().token("{\"exp\":1e300}"), keys, rules, kNow), JwtFault::kNone);
  EXPECT_GT(reader.good_until_s(), kNow);
}

TEST(Jwt, IssuerAndAudience) {
  const JwtKeys keys = keys_of(ec_maker().jwks());
  config::JwtAuth rules;
  rules.issuer = "https://issuer.example/";
  rules.audience = {"api", "web"};
  const auto with = [&](std::string_view members) { return read(ec_maker().token(claims(members)), keys, rules); };
  const std::string issued = R"(,"iss":"https://issuer.example/")";
  EXPECT_EQ(with(issued + R"(,"aud":"web")"), JwtFault::kNone);
  EXPECT_EQ(with(issued + R"(,"aud":["x","api"])"), JwtFault::kNone);
  EXPECT_EQ(with(issued + R"(,"aud":["x","apis"])"), JwtFault::kAudience);
  EXPECT_EQ(with(issued + R"(,"aud":[])"), JwtFault::kAudience);
  EXPECT_EQ(with(issued + R"(,"aud":{"api":1})"), JwtFault::kAudience);
  EXPECT_EQ(with(issued), JwtFault::kAudience);
  EXPECT_EQ(with(R"(,"aud":"web")"), JwtFault::kIssuer);
  EXPECT_EQ(with(R"(,"aud":"web","iss":"https://issuer.example")"), JwtFault::kIssuer);
  EXPECT_EQ(with(R"(,"aud":"web","iss":["https://issuer.example/"])"), JwtFault::kIssuer);
}

// Without a valid signature nothing else is checked: a client learns nothing about claims of its own making.
TEST(Jwt, SignatureIsCheckedFirst) {
  const JwtKeys keys = keys_of(ec_maker().jwks());
  const TokenMaker other("ES256");
  EXPECT_EQ(read(other.token("{\"exp\":1}"), keys), JwtFault::kSignature);
  EXPECT_EQ(read(other.token("no json"), keys), JwtFault::kSignature);
}

}  // namespace
}  // namespace sluice
