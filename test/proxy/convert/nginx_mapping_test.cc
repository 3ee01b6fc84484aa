// What becomes of nginx's directives.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "proxy/config/model/regex.h"
#include "proxy/convert/nginx/values.h"
#include "test/proxy/convert/nginx_mapped.h"

namespace sluice::convert::nginx {
namespace {

struct Rule {
  std::string name, text, expected;
};
class NginxRules : public testing::TestWithParam<Rule> {};

TEST_P(NginxRules, AreTakenOver) {
  const Mapped mapped = map_text(GetParam().text);
  EXPECT_TRUE(mapped.has(GetParam().expected)) << mapped.text << mapped.error;
  EXPECT_EQ(mapped.error, "") << mapped.text;
  EXPECT_EQ(mapped.refused, 0U) << mapped.findings.front();
}

INSTANTIATE_TEST_SUITE_P(
    Values, NginxRules,
    testing::Values(
        Rule{"Exact", with_server("location = /a { return 204; }"), "path: { exact: /a }"},
        Rule{"Prefix", with_server("location /a/ { return 204; }"), "path: { prefix: /a/ }"},
        Rule{"PrefixOfBytes", with_server("location /a { return 204; }"), R"(path: { regex: "/a.*" })"},
        Rule{"Regex", with_server(R"(location ~ \.png$ { return 204; })"), R"(regex: ".*?\\.png")"},
        Rule{"RegexOfAnyCase", with_server("location ~* ^/a { return 204; }"), R"(regex: "(?i)/a.*")"},
        Rule{"SlashRedirect", with_server("location /a/ { proxy_pass http://app; }"),
             "match: { path: { exact: /a } }\n          redirect: { path: /a/ }"},
        Rule{"Uri", with_server("location /a/ { proxy_pass http://app/b/; }"), "prefix: /b/"},
        Rule{"UriOfExact", with_server("location = /a { proxy_pass http://app/b; }"), "path: /b"},
        Rule{"HostOfUpstream", with_location(""), "host: app"},
        Rule{"HostOfClient", with_location("proxy_set_header Host $host;"), "routes: [ { forward: app } ]"},
        Rule{"RealIp", with_location("proxy_set_header X-Real-IP $remote_addr;"),
             R"({ name: X-Real-IP, set: "%{client_ip}" })"},
        Rule{"RequestId", with_location("proxy_set_header X-Request-ID $request_id;"), "request_id: x-request-id"},
        Rule{"ResponseField", with_location("add_header A \"100%\";"), R"({ name: A, add: "100%%" })"},
        Rule{"Redirect", with_server("return 301 https://$host$request_uri;"), "redirect: { scheme: https }"},
        Rule{"RedirectToHost", with_server("return 302 https://b.test:8443/x;"),
             "redirect: { status: 302, scheme: https, host: b.test, port: 8443, path: /x, drop_query: true }"},
        Rule{"Rewrite", with_server("rewrite ^/a/(.*)$ /b/$1 permanent;"),
             R"x(redirect: { regex: "/a/(.*)", substitution: "/b/\\1" })x"},
        Rule{"RewriteBreak", with_location("rewrite ^/a/(.*)$ /$1 break;"), R"x(regex: "/a/(.*)")x"},
        Rule{"IfMethod", with_location("if ($request_method = POST) { return 405; }"), "method: POST"},
        Rule{"IfNotMethod", with_location("if ($request_method !~ ^(GET|HEAD)$) { return 405; }"),
             "method: [ GET, HEAD ]"},
        Rule{"IfHeader", with_location("if ($http_x_a != b) { return 403; }"), "{ name: x-a, exact: b, not: true }"},
        Rule{"IfCookie", with_location("if ($cookie_a) { return 403; }"), "name: cookie"},
        Rule{"Allow", with_location("allow 10.0.0.0/8; deny all;"), "allow: 10.0.0.0/8"},
        Rule{"DenyThenAllow", with_location("deny 10.1.0.0/16; allow 10.0.0.0/8; deny all;"), "deny: 10.1.0.0/16"},
        Rule{"AllowInherited", with_server("deny 10.0.0.1; location / { proxy_pass http://app; }"), "deny: 10.0.0.1"},
        Rule{"DenyAll", with_location("deny all;"), "respond: { status: 403 }"},
        Rule{"Password", with_location("auth_basic a; auth_basic_user_file users;"), "users_file: /etc/nginx/users"},
        Rule{"NoPassword",
             with_server("auth_basic a; auth_basic_user_file u; location / { auth_basic off; proxy_pass http://app; }"),
             "forward: app"},
        Rule{"Authorizer",
             with_server(
                 "location / { auth_request /a; auth_request_set $u $upstream_http_x_user; proxy_set_header X-User $u; "
                 "proxy_pass http://app; } location = /a { internal; proxy_pass http://10.0.0.9:9/c; }"),
             "response_headers: x-user"},
        Rule{"Limit",
             with_location("limit_req zone=z burst=5 nodelay;",
                           "limit_req_zone $binary_remote_addr zone=z:1m rate=10r/s;"),
             "rate: 10/s\n    burst: 6\n    status: 503"},
        Rule{"LimitWithDelay",
             with_location("limit_req zone=z burst=5;", "limit_req_zone $binary_remote_addr zone=z:1m rate=10r/s;"),
             "burst: 1\n    delay: 500ms"},
        Rule{"MaxBody", with_location("client_max_body_size 10m;"), "max_body: 10MiB"},
        Rule{"ReadTimeout", with_location("proxy_read_timeout 1h30m;"), "response_timeout: 90m"},
        Rule{"Retry", with_location("proxy_next_upstream error http_503; proxy_next_upstream_tries 3;"),
             "retry: { on: [ connect_failure, refused, reset ], retriable_status_codes: 503, attempts: 3 }"},
        Rule{"Gzip", with_location("", "gzip on; gzip_types application/json;"),
             "types: [ text/html, application/json ]"},
        Rule{"Balance",
             "http { upstream a { ip_hash; server 10.0.0.1:80 weight=3; server b.test:81; } server { listen 80; "
             "location / { proxy_pass http://a; } } }",
             "{ address: 10.0.0.1:80, weight: 3 }"},
        Rule{"Backup",
             "http { upstream a { server 10.0.0.1:80; server 10.0.0.2:80 backup; } server { listen 80; location / { "
             "proxy_pass http://a; } } }",
             "failover_below: 1"},
        Rule{"Tls",
             with_server("location / { proxy_pass https://app; proxy_ssl_server_name on; proxy_ssl_name b.test; }"),
             "tls: { verify: false, server_name: b.test }"},
        Rule{"Grpc", with_server("location / { grpc_pass grpc://app; }"), "protocol: http2"},
        Rule{"Ipv6Only", "http { server { listen [::]:80; return 204; } }", "ipv6_only: true"},
        Rule{"BothFamilies", "http { server { listen 80; listen [::]:80; return 204; } }",
             R"(address: [ 0.0.0.0:80, "[::]:80" ])"},
        Rule{"TrustedProxies",
             with_location("", "set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;"),
             "trusted_proxies: [ 10.0.0.0/8 ]"},
        Rule{"ErrorPage",
             with_server(
                 "error_page 500 502 /e.html; location = /e.html { root /w; } location / { proxy_pass http://app; }"),
             "status: [ 500, 502 ]\n          file: /w/e.html"},
        Rule{"Stream", "stream { server { listen 5432; proxy_pass 10.0.0.1:5432; proxy_protocol on; } }",
             "send_proxy_protocol: v1"},
        Rule{"StreamBySni",
             "stream { map $ssl_preread_server_name $s { hostnames; a.test 10.0.0.1:443; *.b.test 10.0.0.2:443; "
             "default 10.0.0.3:443; } server { listen 443; ssl_preread on; proxy_pass $s; } }",
             R"(match: { sni: "**.b.test" })"},
        Rule{"User", "user www-data www;\nhttp { server { listen 80; return 204; } }", "user: www-data:www"}),
    [](const testing::TestParamInfo<Rule>& rule) { return rule.param.name; });

TEST(NginxMapping, ServersInTheOrderOfTheirNames) {
  const Mapped mapped = map_text(R"(http {
    server { listen 80 default_server; return 404; }
    server { listen 80; server_name *.a.test; return 201; }
    server { listen 80; server_name b.a.test ""; return 202; }
    server { listen 80; server_name .c.test ~^[^.]+\.d\.test$; return 203; }
  })");
  EXPECT_EQ(mapped.error, "");
  EXPECT_EQ(mapped.refused, 0U);
  const size_t exact = mapped.text.find("b.a.test"), star = mapped.text.find("**.a.test");
  EXPECT_LT(exact, star) << mapped.text;
  EXPECT_TRUE(mapped.has(R"([ c.test, "**.c.test", "*.d.test" ])")) << mapped.text;
}

// Whatever is refused, no request gets further than in nginx.
TEST(NginxMapping, ClosesWhatItCannotGuard) {
  const std::string closed = "forward: app";
  for (const char* const directives :
       {"auth_jwt a;", "allow 10.0.0.0/8; deny 10.0.0.1; deny all;", "limit_req zone=none;", "auth_request /none;",
        "if ($a = b) { return 403; }", "if ($http_a = b) { set $c d; }", "limit_except GET { deny all; }",
        "valid_something on;"}) {
    const Mapped mapped = map_text(with_location(directives));
    EXPECT_FALSE(mapped.has(closed)) << directives << "\n" << mapped.text;
    EXPECT_GE(mapped.refused, 1U) << directives;
    EXPECT_EQ(mapped.error, "") << directives << "\n" << mapped.text;
  }
  EXPECT_FALSE(
      map_text(with_server("location ~ (?!a) { deny all; } location / { proxy_pass http://app; }")).has(closed));
  EXPECT_FALSE(map_text(with_location("", "unknown_module on;")).has(closed));
  EXPECT_FALSE(
      map_text("stream { server { listen 1; allow 10.0.0.1; deny all; proxy_pass 10.0.0.1:1; } }").has("10.0.0.1:1"));
  const Mapped names = map_text(
      "http { upstream app { server 10.0.0.1:80; } server { listen 80; location / { proxy_pass http://app; } } "
      "server { listen 80; server_name a.*; return 403; } }");
  EXPECT_FALSE(names.has(closed)) << names.text;
}

// nginx compares decoded paths: a character that is escaped must not lead around a location.
TEST(NginxMapping, LocationsFitBothFormsOfACharacter) {
  const auto fits = [](std::string_view regex, std::string_view path) {
    const std::optional<PathSet> set = decoded_path_regex(regex, false);
    return set.has_value() && config::Regex::parse(set->text)->fits(path);
  };
  for (const std::string_view path : {"/a@b", "/a%40b", "/x/a@b/c"}) EXPECT_TRUE(fits("/a@b", path)) << path;
  EXPECT_TRUE(fits("^/a b$", "/a%20b"));
  EXPECT_TRUE(fits(R"(^/a\+{2}(?:b|c)$)", "/a+%2Bc"));
  EXPECT_TRUE(fits("^/[a-z0-9_-]+$", "/a-b"));
  for (const std::string_view regex : {"/[@]", R"(/\s)", "/(?=a)", R"(/\x40)"})
    EXPECT_FALSE(decoded_path_regex(regex, false).has_value()) << regex;
  EXPECT_TRUE(map_text(with_server("location /a@b/ { deny all; } location / { proxy_pass http://app; }")).has("%40"));
}

TEST(NginxMapping, SaysWhatIsLost) {
  EXPECT_TRUE(map_text(with_server("location / { root /w; }")).says("location \"/\": refused: Sluice serves no files"));
  EXPECT_TRUE(map_text(with_location("sendfile on;")).says("sendfile: ignored: "));
  EXPECT_TRUE(map_text(with_location("proxy_cache a;")).says("proxy_cache: refused: there is no cache"));
  EXPECT_TRUE(
      map_text(with_location("no_such_thing a;")).says("no_such_thing: refused: sluice convert does not know it"));
  EXPECT_NE(map_text("server { }").error.find("expected a block `http` or `stream`"), std::string::npos);
}

}  // namespace
}  // namespace sluice::convert::nginx
