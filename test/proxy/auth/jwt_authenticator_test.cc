#include "proxy/auth/jwt_authenticator.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/auth/credentials.h"
#include "test/proxy/auth/token_maker.h"
#include "test/proxy/http/h2/allocations.h"

namespace sluice {
namespace {

using test::TokenMaker;

constexpr int64_t kNow = 1'800'000'000;

class JwtAuthenticatorTest : public testing::Test {
 protected:
  JwtAuthenticatorTest() { rules_.leeway = std::chrono::seconds(0); }
  JwtAuthenticator& gate() {
    if (!gate_) gate_.emplace(rules_, "sluice").use(keys_);
    return *gate_;
  }
  void add(std::string_view name, std::string_view value) { EXPECT_TRUE(fields_.add(pool_, name, value)); }
  void claim(std::string claim, std::string_view header) {
    rules_.claims.push_back({std::move(claim), config::FieldName::parse(header).value()});
  }
  static std::string token(std::string_view more = "", int64_t expires_s = kNow + 300) {
    return maker().token(absl::StrCat(R"({"sub":"me","exp":)", expires_s, more, "}"));
  }
  AuthResult check(std::string_view token, int64_t now_s = kNow) {
    fields_.clear();
    add("authorization", absl::StrCat("Bearer ", token));
    return gate().check(pool_, fields_, now_s);
  }
  static const TokenMaker& maker() {
    static const TokenMaker maker("ES256");
    return maker;
  }

  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
  ChunkPool::Use use_{&pool_};
  const JwtKeys keys_ = JwtKeys::parse(maker().jwks()).value();
  config::JwtAuth rules_;
  Fields fields_;
  std::optional<JwtAuthenticator> gate_;
};

TEST_F(JwtAuthenticatorTest, Challenges) {
  EXPECT_EQ(gate().check(pool_, fields_, kNow), AuthResult::kRefused);
  EXPECT_EQ(gate().challenge(), "Bearer realm=\"sluice\"");
  EXPECT_EQ(check("x"), AuthResult::kRefused);
  EXPECT_EQ(gate().challenge(),
            "Bearer realm=\"sluice\", error=\"invalid_token\", error_description=\"the token is malformed\"");
  EXPECT_EQ(check(token("", kNow)), AuthResult::kRefused);
  EXPECT_EQ(gate().challenge(),
            "Bearer realm=\"sluice\", error=\"invalid_token\", error_description=\"the token has expired\"");
}

TEST_F(JwtAuthenticatorTest, TokenLocations) {
  const auto found = [&] { return std::string(find_token(rules_, fields_).value_or("none")); };
  add("authorization", "bEARER  abc");
  EXPECT_EQ(found(), "abc");
  add("authorization", "Bearer abc");  // It is ambiguous which of them counts.
  EXPECT_EQ(found(), "none");
  fields_.clear();
  for (const std::string_view other : {"Basic abc", "Bearer", "Bearerabc", ""}) {
    fields_.clear();
    add("authorization", other);
    EXPECT_EQ(found(), "none") << other;
  }
  rules_.cookie = "session";
  add("cookie", "a=b; xsession=c; session=def; d=e");
  EXPECT_EQ(found(), "def");
  fields_.clear();
  add("cookie", "a=b");
  add("cookie", "session=ghi");
  EXPECT_EQ(found(), "ghi");
  rules_.header = config::FieldName::parse("X-Token").value();
  rules_.scheme = "";
  add("x-token", "jkl");
  EXPECT_EQ(found(), "jkl");
}

TEST_F(JwtAuthenticatorTest, ClaimsAreForwarded) {
  claim("sub", "x-user");
  claim("roles", "x-roles");
  claim("admin", "x-admin");
  claim("missing", "x-missing");
  ASSERT_EQ(check(token(R"(,"roles":["a","b",3],"admin":true)")), AuthResult::kAdmitted);
  EXPECT_EQ(fields_.value("x-user"), "me");
  EXPECT_EQ(fields_.value("x-roles"), "a,b,3");
  EXPECT_EQ(fields_.value("x-admin"), "true");
  EXPECT_EQ(fields_.find("x-missing"), Fields::npos);
}

// A claim's text may be anything: it must not become another field, nor two values instead of one.
TEST_F(JwtAuthenticatorTest, ClaimsThatAreInvalidFieldsAreLeftOut) {
  claim("c", "x-c");
  for (const std::string_view value : {R"("a\r\nx-admin: true")", R"("a\u0000")", R"("\u007f")", R"(" a")", R"("a ")",
                                       R"("")", "null", "{}", R"(["a","b,c"])", R"(["a",["b"]])", "[]"}) {
    ASSERT_EQ(check(token(absl::StrCat(",\"c\":", value))), AuthResult::kAdmitted) << value;
    EXPECT_EQ(fields_.find("x-c"), Fields::npos) << value << " became " << fields_.value("x-c");
  }
  ASSERT_EQ(check(token(absl::StrCat(",\"c\":\"", std::string(4097, 'x'), "\""))), AuthResult::kAdmitted);
  EXPECT_EQ(fields_.find("x-c"), Fields::npos);
  ASSERT_EQ(check(token(R"(,"c":"é")")), AuthResult::kAdmitted);
  EXPECT_EQ(fields_.value("x-c"), "é");
}

TEST_F(JwtAuthenticatorTest, CachedTokenAllocatesNothing) {
  claim("sub", "x-user");
  const std::string good = token();
  ASSERT_EQ(check(good), AuthResult::kAdmitted);
  const uint64_t before = test::allocations;
  ASSERT_EQ(check(good), AuthResult::kAdmitted);
  EXPECT_LE(test::allocations - before, 1u);  // This test's own text; under ASan none is counted.
  EXPECT_EQ(fields_.value("x-user"), "me");
  // A token that differs in one character is another token.
  std::string changed = good;
  changed.back() = changed.back() == 'A' ? 'B' : 'A';
  EXPECT_EQ(check(changed), AuthResult::kRefused);
}

TEST_F(JwtAuthenticatorTest, CachedTokenExpires) {
  const std::string good = token();
  EXPECT_EQ(check(good), AuthResult::kAdmitted);
  EXPECT_EQ(check(good, kNow + 299), AuthResult::kAdmitted);
  EXPECT_EQ(check(good, kNow + 300), AuthResult::kRefused);
}

TEST_F(JwtAuthenticatorTest, NewKeysAcceptNewTokens) {
  const std::string good = token();
  ASSERT_EQ(check(good), AuthResult::kAdmitted);
  const TokenMaker other("ES256");
  const JwtKeys keys = JwtKeys::parse(other.jwks()).value();
  gate().use(keys);
  EXPECT_EQ(check(good), AuthResult::kRefused);
  EXPECT_EQ(check(other.token(absl::StrCat("{\"exp\":", kNow + 1, "}"))), AuthResult::kAdmitted);
}

}  // namespace
}  // namespace sluice
