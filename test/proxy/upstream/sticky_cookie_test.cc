#include "proxy/upstream/sticky_cookie.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "proxy/upstream/balancer.h"

namespace sluice {
namespace {

config::Upstream with_cookies() {
  config::Upstream upstream;
  for (const char* address : {"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"}) {
    upstream.endpoints.push_back({.address = config::Address::parse(address).value()});
  }
  upstream.sticky.emplace();
  return upstream;
}

class StickyCookieTest : public ::testing::Test {
 protected:
  std::string set_cookie(uint32_t endpoint, bool secure = false) {
    Fields response;
    EXPECT_TRUE(add_sticky(pool_, *config_.sticky, *set(), endpoint, secure, response));
    return std::string(response.value("set-cookie"));
  }
  std::optional<uint32_t> find(std::string_view cookies) {
    Fields request;
    EXPECT_TRUE(request.add(pool_, "cookie", cookies));
    return find_sticky(*config_.sticky, *set(), request);
  }
  std::shared_ptr<const EndpointSet> set() { return state_.slots().endpoint_set(); }

  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
  config::Upstream config_ = with_cookies();
  UpstreamState state_{config_};
};

// A cookie that a browser sends back is found.
TEST_F(StickyCookieTest, RoundTrip) {
  for (uint32_t i = 0; i < 3; ++i) {
    const std::string text = set_cookie(i);
    const std::string pair = text.substr(0, text.find(';'));
    EXPECT_EQ(pair.size(), std::string("sluice=").size() + 16);
    EXPECT_EQ(find(pair), i);
    EXPECT_EQ(find("a=b; " + pair + "; c=d"), i);
    EXPECT_FALSE(find(pair + "0"));
    EXPECT_FALSE(find(pair.substr(0, pair.size() - 1)));
    EXPECT_FALSE(find("x" + pair));
    EXPECT_EQ(text.find("10.0.0"), std::string::npos);
  }
  for (const char* none : {"", "sluice", "sluice=", "sluice=0000000000000000", "sluice=ffffffffffffffff",
                           "sluice=zzzzzzzzzzzzzzzz", "sluice= 00000000000000", "other=1"}) {
    EXPECT_FALSE(find(none)) << none;
  }
  EXPECT_FALSE(find_sticky(*config_.sticky, *set(), Fields()));
}

TEST_F(StickyCookieTest, Attributes) {
  const std::string pair = absl::StrCat("sluice=", absl::Hex(set()->cookie_id(1), absl::kZeroPad16));
  EXPECT_EQ(set_cookie(1), pair + "; Path=/; HttpOnly");
  EXPECT_EQ(set_cookie(1, true), pair + "; Path=/; HttpOnly; Secure");
  config_.sticky->ttl = std::chrono::hours(2);
  config_.sticky->path = "/app";
  EXPECT_EQ(set_cookie(1), pair + "; Path=/app; Max-Age=7200; HttpOnly");
}

// The longest cookie that a configuration allows.
TEST_F(StickyCookieTest, LongestFits) {
  config_.sticky->cookie = std::string(config::Sticky::kMaxCookieBytes, 'c');
  config_.sticky->path = "/" + std::string(config::Sticky::kMaxPathBytes - 1, 'p');
  config_.sticky->ttl = config::kMaxDuration;
  const std::string text = set_cookie(2, true);
  EXPECT_TRUE(text.ends_with("; Max-Age=31536000; HttpOnly; Secure")) << text;
  EXPECT_EQ(find(text.substr(0, text.find(';'))), 2u);
}

// If an endpoint is removed while it responds, the client gets no cookie, which would be useless.
TEST_F(StickyCookieTest, NoneForARemovedEndpoint) {
  state_.endpoint(1).present.store(false);
  state_.slots().renew_set();
  EXPECT_EQ(set_cookie(1), "");
}

}  // namespace
}  // namespace sluice
