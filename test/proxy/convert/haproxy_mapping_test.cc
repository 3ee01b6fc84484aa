// What becomes of HAProxy's lines.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"
#include "proxy/convert/haproxy/mapping.h"

namespace sluice::convert::haproxy {
namespace {

struct Mapped {
  std::string text;
  std::vector<std::string> findings;
  size_t refused = 0;
  std::string error;

  bool has(std::string_view part) const { return text.find(part) != std::string::npos; }
  bool says(std::string_view part) const {
    for (const std::string& each : findings) {
      if (each.find(part) != std::string::npos) return true;
    }
    return false;
  }
};

Mapped map_text(std::string_view text) {
  const Disk disk{.read = [&](const std::string&) { return absl::StatusOr<std::string>(std::string(text)); },
                  .matches = [](const std::string&) { return std::vector<std::string>(); }};
  const Conversion made = map_file("haproxy.cfg", disk);
  Mapped mapped{.text = made.text, .refused = made.findings.count(Severity::kRefused), .error = made.error};
  for (const Finding& each : made.findings.list()) mapped.findings.push_back(each.text());
  if (!mapped.error.empty()) return mapped;
  const absl::StatusOr<config::Config> loaded = config::load_text(made.text, "result");
  if (!loaded.ok()) mapped.error = loaded.status().message();
  return mapped;
}

std::string with_frontend(std::string_view lines, std::string_view backend = "") {
  return absl::StrCat("defaults\n mode http\nfrontend web\n bind :80\n ", lines,
                      "\n default_backend app\nbackend app\n ", backend,
                      "\n server a 10.0.0.1:80\nbackend other\n server b 10.0.0.2:80\n");
}
std::string with_backend(std::string_view lines) {
  return absl::StrCat("defaults\n mode http\nfrontend web\n bind :80\n default_backend app\nbackend app\n ", lines,
                      "\n");
}

struct Rule {
  std::string name, text, expected;
};
class HaproxyRules : public testing::TestWithParam<Rule> {};

TEST_P(HaproxyRules, AreTakenOver) {
  const Mapped mapped = map_text(GetParam().text);
  EXPECT_TRUE(mapped.has(GetParam().expected)) << mapped.text << mapped.error;
  EXPECT_EQ(mapped.error, "") << mapped.text;
  EXPECT_EQ(mapped.refused, 0U) << mapped.findings.front();
}

INSTANTIATE_TEST_SUITE_P(
    Values, HaproxyRules,
    testing::Values(
        Rule{"Host", with_frontend("use_backend other if { hdr(host) -i A.test }"), "match: { host: a.test }"},
        Rule{"HostEnd", with_frontend("use_backend other if { hdr_end(host) .a.test }"), R"(host: "**.a.test")"},
        Rule{"Path", with_frontend("use_backend other if { path /a }"), "path: { exact: /a }"},
        Rule{"PathBegin", with_frontend("use_backend other if { path_beg /a/ }"), "path: { prefix: /a/ }"},
        Rule{"PathEnd", with_frontend("use_backend other if { path_end .png }"), R"(regex: ".*\\.png")"},
        Rule{"Or", with_frontend("use_backend other if { path /a } || { path /b }"), "path: { exact: /b }"},
        Rule{"And", with_frontend("use_backend other if { path /a } { method POST }"), "method: POST"},
        Rule{"Named", with_frontend("acl x path /a\n acl x path /b\n use_backend other if x"), "path: { exact: /b }"},
        Rule{"Predefined", with_frontend("use_backend other if METH_POST"), "method: POST"},
        Rule{"Denied", with_frontend("http-request deny if { src 10.0.0.0/8 }"),
             "match: { source: 10.0.0.0/8 }\n          respond: { status: 403 }"},
        Rule{"DeniedUnless", with_frontend("http-request deny unless { src 10.0.0.0/8 }"),
             "match: { source: 10.0.0.0/8 }\n          forward: app"},
        Rule{"Return",
             with_frontend("http-request return status 200 content-type text/plain string \"a b\" if { path /a }"),
             "body: \"a b\""},
        Rule{"Redirect", with_frontend("redirect scheme https code 301 if !{ ssl_fc }"), "redirect: { scheme: https }"},
        Rule{"Location", with_frontend("http-request redirect location https://b.test/x code 308"),
             "redirect: { status: 308, scheme: https, host: b.test, path: /x, drop_query: true }"},
        Rule{"SetHeader", with_frontend("http-request set-header X-A %[src]-%[req.hdr(x-b)]"),
             R"(set: "%{client_ip}-%{header:x-b}")"},
        Rule{"ReplacePath", with_backend("http-request replace-path ^/a/(.*)$ /\\1\n server a 10.0.0.1:80"),
             R"x(regex: "/a/(.*)")x"},
        Rule{"SetPath", with_backend("http-request set-path %[path,regsub(^/a/,/)]\n server a 10.0.0.1:80"),
             R"(substitution: "/\\1")"},
        Rule{"Check",
             with_backend(
                 "option httpchk GET /health\n http-check expect status 200-202\n server a 10.0.0.1:80 check inter 3s"),
             "http: { path: /health, status: [ 200, 201, 202 ] }"},
        Rule{"Weights", with_backend("server a 10.0.0.1:80 weight 3\n server b 10.0.0.2:80 backup"),
             "{ address: 10.0.0.1:80, weight: 3 }"},
        Rule{"Balance", with_backend("balance hdr(x-a)\n hash-type consistent\n server a 10.0.0.1:80"),
             "balance: ring_hash\n    hash: { header: x-a }"},
        Rule{"Sticky", with_backend("cookie SRV insert indirect nocache\n server a 10.0.0.1:80 cookie a"),
             "sticky: { cookie: SRV }"},
        Rule{"Tls", with_backend("server a 10.0.0.1:443 ssl verify required ca-file /ca.pem verifyhost a.test"),
             "tls: { ca: /ca.pem, server_name: a.test }"},
        Rule{"Template", with_backend("server-template a 1-3 app.test:80"), "resolve: { max_addresses: 3 }"},
        Rule{"Listen", "listen a\n mode tcp\n bind :5432\n server a 10.0.0.1:5432 send-proxy-v2\n",
             "send_proxy_protocol: v2"},
        Rule{"Ports", "listen a\n mode tcp\n bind 127.0.0.1:80-82\n server a 10.0.0.1:80\n",
             "address: [ 127.0.0.1:80, 127.0.0.1:81, 127.0.0.1:82 ]"},
        Rule{"ServerNames",
             "frontend a\n mode tcp\n bind :443\n use_backend b if { req.ssl_sni -i a.test }\nbackend b\n mode tcp\n "
             "server a 10.0.0.1:443\n",
             "match: { sni: a.test }"}),
    [](const testing::TestParamInfo<Rule>& rule) { return rule.param.name; });

// Whatever is refused, no request gets further than in HAProxy.
TEST(HaproxyMapping, ClosesWhatItCannotGuard) {
  for (const char* const line :
       {"http-request deny if { sc_http_req_rate(0) gt 1 }", "http-request auth unless { http_auth(u) }",
        "http-request deny if unknown_acl", "http-request lua.f", "http-request allow if { path /a }", "no-such-line a",
        "tcp-request content lua.f", "http-request deny unless { hdr_dom(host) a }"}) {
    const Mapped mapped = map_text(with_frontend(line));
    EXPECT_FALSE(mapped.has("forward: app")) << line << "\n" << mapped.text;
    EXPECT_GE(mapped.refused, 1U) << line;
    EXPECT_EQ(mapped.error, "") << line << "\n" << mapped.text;
  }
  EXPECT_FALSE(
      map_text(
          "listen a\n mode tcp\n bind :1\n tcp-request connection reject if { src 10.0.0.1 }\n server a 10.0.0.1:1\n")
          .has("tcp:"));
}

TEST(HaproxyMapping, ChangesHoldBehindTheirConditions) {
  const Mapped mapped =
      map_text(with_frontend("http-request set-header X-A b if { path /a }\n use_backend other if { method POST }"));
  EXPECT_EQ(mapped.error, "");
  // With the change, by both methods, and without it, by both.
  size_t routes = 0;
  for (size_t at = mapped.text.find("forward: "); at != std::string::npos; at = mapped.text.find("forward: ", at + 1))
    ++routes;
  EXPECT_EQ(routes, 4U) << mapped.text;
}

TEST(HaproxyMapping, ManyConditionsEnd) {
  std::string lines;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&lines, "http-request set-header X-", i, " a if { hdr(a", i, ") b }\n ");
  const Mapped mapped = map_text(with_frontend(lines));
  EXPECT_EQ(mapped.error, "");
  EXPECT_TRUE(mapped.says("too many routes"));
}

TEST(HaproxyMapping, SaysWhatIsLost) {
  EXPECT_TRUE(map_text(with_frontend("option httplog")).says("option httplog: ignored"));
  EXPECT_TRUE(map_text(with_frontend("errorfile 503 /e")).says("errorfile: ignored"));
  EXPECT_EQ(map_text("global\n").error, "haproxy.cfg: expected a section `frontend` or `listen`");
  EXPECT_EQ(map_text("x\n").error, "haproxy.cfg:1:1: expected a section such as `frontend NAME`, got \"x\"");
  EXPECT_EQ(map_text("frontend a\n bind \"x\n").error, "haproxy.cfg:2:2: a quoted text does not end");
}

}  // namespace
}  // namespace sluice::convert::haproxy
