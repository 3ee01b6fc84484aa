#include "proxy/auth/cors_policy.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

class CorsPolicyTest : public testing::Test {
 protected:
  std::string listed(const Fields& fields) {
    std::string text;
    for (const Fields::Field field : fields) absl::StrAppend(&text, field.name, ": ", field.value, "\n");
    return text;
  }
  std::string preflight(std::string_view origin) {
    Fields fields;
    EXPECT_TRUE(CorsPolicy(config_).add_to_preflight(pool_, origin, fields));
    return listed(fields);
  }
  std::string response(std::string_view origin) {
    Fields fields;
    // The upstream's own CORS fields do not count.
    EXPECT_TRUE(fields.add(pool_, "access-control-allow-origin", "https://upstream.example"));
    EXPECT_TRUE(fields.add(pool_, "access-control-allow-credentials", "true"));
    EXPECT_TRUE(CorsPolicy(config_).add_to_response(pool_, origin, fields));
    return listed(fields);
  }
  static config::FieldName name(std::string_view text) { return config::FieldName::parse(text).value(); }

  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
  ChunkPool::Use use_{&pool_};
  config::Cors config_;
};

TEST_F(CorsPolicyTest, Origins) {
  config_.origins = {"https://a.example", "https://*.b.example", "http://*.c.example:8080"};
  const CorsPolicy policy(config_);
  for (const std::string_view origin : {"https://a.example", "https://x.b.example", "http://x.c.example:8080"}) {
    EXPECT_TRUE(policy.allows(origin)) << origin;
  }
  for (const std::string_view origin :
       {"", "null", "*", "http://a.example", "https://a.example:443", "https://a.example/", "https://A.example",
        "https://xa.example", "https://a.example.evil", "https://b.example", "https://.b.example",
        "https://x.y.b.example", "https://evil.example/.b.example", "https://x:1.b.example", "https://u@x.b.example",
        "https://xb.example", "http://x.c.example", "https://x.b.example:1"}) {
    EXPECT_FALSE(policy.allows(origin)) << origin;
  }
}

TEST_F(CorsPolicyTest, OriginsByRegex) {
  config_.origin_regex = {config::Regex::parse("https://([a-z]+\\.)+a\\.example").value()};
  config_.credentials = true;
  const CorsPolicy policy(config_);
  for (const std::string_view origin : {"https://x.a.example", "https://x.y.a.example"}) {
    EXPECT_TRUE(policy.allows(origin)) << origin;
    EXPECT_NE(response(origin).find(absl::StrCat("access-control-allow-origin: ", origin)), std::string::npos);
  }
  for (const std::string_view origin :
       {"", "https://a.example", "https://x.a.example.other", "see https://x.a.example"}) {
    EXPECT_FALSE(policy.allows(origin)) << origin;
  }
  EXPECT_NE(response("https://other.example").find("vary: Origin"), std::string::npos);
}

TEST_F(CorsPolicyTest, Preflights) {
  config_.origins = {"https://a.example"};
  config_.methods = {"GET", "PUT"};
  config_.headers = {name("X-A"), name("x-b")};
  config_.expose = {name("x-c")};
  config_.credentials = true;
  EXPECT_EQ(
      preflight("https://a.example"),
      "vary: Origin\naccess-control-allow-origin: https://a.example\naccess-control-allow-credentials: true\n"
      "access-control-allow-methods: GET, PUT\naccess-control-allow-headers: x-a, x-b\naccess-control-max-age: 600\n");
}

TEST_F(CorsPolicyTest, Responses) {
  config_.origins = {"https://a.example"};
  config_.expose = {name("x-c"), name("x-d")};
  EXPECT_EQ(response("https://a.example"),
            "vary: Origin\naccess-control-allow-origin: https://a.example\naccess-control-expose-headers: x-c, x-d\n");
  EXPECT_EQ(response("https://b.example"), "vary: Origin\n");
  EXPECT_EQ(response(""), "vary: Origin\n");
}

TEST_F(CorsPolicyTest, AnyOrigin) {
  config_.origins = {"*"};
  EXPECT_EQ(response("https://a.example"), "access-control-allow-origin: *\n");
  EXPECT_EQ(response("null"), "access-control-allow-origin: *\n");
  EXPECT_EQ(response(""), "");
}

}  // namespace
}  // namespace sluice
