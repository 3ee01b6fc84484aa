// The admin listener's part of a configuration, and the configuration as JSON without its secrets.
#include "proxy/config/model/admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/json_writer.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/print.h"
#include "proxy/config/load/print_json.h"

namespace sluice::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::string_view kRest = R"(
listeners:
  - { name: web, address: 0.0.0.0:80, tcp: { forward: a } }
  - { name: six, address: "[::]:81", tcp: { forward: a } }
  - { name: file, address: "unix:/run/x", tcp: { forward: a } }
upstreams:
  - { name: a, endpoints: [ 127.0.0.1:1 ] }
)";

absl::StatusOr<Config> load_admin(std::string_view admin, std::vector<std::string>* warnings = nullptr) {
  return load_text(absl::StrCat("admin: { ", admin, " }", kRest), "f", warnings);
}

TEST(FileMode, ReadsOctalDigits) {
  EXPECT_EQ(FileMode::parse("0660")->bits(), 0660u);
  EXPECT_EQ(FileMode::parse("600")->bits(), 0600u);
  EXPECT_EQ(FileMode::parse("600")->text(), "0600");
  for (const char* text : {"", "6", "0888", "rw", "1777", "06600", "0o60", "-60"}) {
    EXPECT_THAT(FileMode::parse(text).status().message(), HasSubstr("expected the permissions of a file in octal"))
        << text;
  }
}

TEST(AdminConfig, DefaultsAndRoundTrip) {
  const auto config = load_admin("address: 127.0.0.1:9901");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->admin->mode.bits(), 0600u);
  EXPECT_EQ(config->admin->max_connections, 64u);
  EXPECT_EQ(*load_text(print_config(*config), "f"), *config);
  EXPECT_FALSE(load_text(kRest, "f")->admin);
}

TEST(AdminConfig, OtherMachinesNeedAToken) {
  for (const char* address : {"0.0.0.0:9901", "\"[::]:9901\"", "10.0.0.1:9901", "\"[2001:db8::1]:9901\""}) {
    EXPECT_THAT(load_admin(absl::StrCat("address: ", address)).status().message(),
                HasSubstr("can be reached from other machines, which need a token or a certificate: set "
                          "`admin.token_file`, or `admin.tls` with `client_certificate: require`"))
        << address;
    std::vector<std::string> warnings;
    EXPECT_TRUE(load_admin(absl::StrCat("token_file: t, address: ", address), &warnings).ok()) << address;
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("unencrypted")));
  }
  const std::string tls = "address: 0.0.0.0:9901, tls: { certificates: [ { chain: c, key: k } ]";
  std::vector<std::string> warnings;
  EXPECT_TRUE(load_admin(absl::StrCat(tls, ", client_ca: a, client_certificate: require }"), &warnings).ok());
  EXPECT_TRUE(load_admin(absl::StrCat(tls, " }, token_file: t"), &warnings).ok());
  EXPECT_THAT(warnings, IsEmpty()) << "nothing passes the network unencrypted";
  for (const char* rest : {" }", ", client_ca: a, client_certificate: request }"}) {
    EXPECT_THAT(load_admin(absl::StrCat(tls, rest)).status().message(), HasSubstr("need a token or a certificate"))
        << "TLS alone does not tell who the client is";
  }
  for (const char* address : {"127.0.0.1:9901", "127.9.9.9:9901", "\"[::1]:9901\"", "localhost:1", "\"unix:/a\"",
                              "\"unix:@a\"", "[ 127.0.0.1:1, \"unix:/a\" ]"}) {
    EXPECT_TRUE(load_admin(absl::StrCat("address: ", address)).ok()) << address;
  }
}

TEST(AdminConfig, Tls) {
  const std::string certificates = "certificates: [ { chain: c, key: k } ]";
  const auto load = [&](const std::string& rest, const char* address = "127.0.0.1:9901") {
    return load_admin(absl::StrCat("address: ", address, ", tls: { ", certificates, rest, " }"));
  };
  const auto error = [&](const std::string& rest) { return std::string(load(rest).status().message()); };
  const auto config = load(", client_ca: a, client_certificate: require, handshake_timeout: 2s");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->admin->tls->alpn, ElementsAre("http/1.1"));
  EXPECT_EQ(*load_text(print_config(*config), "f"), *config);
  EXPECT_THAT(error(", client_certificate: require"), HasSubstr("admin.tls.client_certificate: needs `client_ca`"));
  EXPECT_THAT(error(", client_ca: a"), HasSubstr("admin.tls.client_ca: has no effect without"));
  EXPECT_THAT(error(", alpn: [ h2, http/1.1 ]"), HasSubstr("admin.tls.alpn[0]: the admin listener speaks http/1.1"));
  EXPECT_THAT(error(", max_handshakes: 5"), HasSubstr("admin.tls.max_handshakes: has no effect here"));
  EXPECT_THAT(load_admin("address: 127.0.0.1:9901, tls: {}").status().message(), HasSubstr("certificates"));
  EXPECT_THAT(load("", "\"unix:/a\"").status().message(),
              HasSubstr("admin.tls: has no effect: all addresses are Unix"));
  EXPECT_TRUE(load("", "[ 127.0.0.1:1, \"unix:/a\" ]").ok());
}

TEST(AdminConfig, AddressesDoNotCollide) {
  const auto error = [](const char* admin) { return std::string(load_admin(admin).status().message()); };
  EXPECT_THAT(error("address: 127.0.0.1:80"), HasSubstr("f:1:19: admin.address: listener \"web\" already has"));
  EXPECT_THAT(error("address: 127.0.0.1:81"), HasSubstr("listener \"six\" already has"));
  EXPECT_THAT(error("address: \"unix:/run/x\""), HasSubstr("listener \"file\" already has"));
  EXPECT_THAT(error("address: [ 127.0.0.1:9, 127.0.0.1:9 ]"),
              HasSubstr("admin.address[1]: 127.0.0.1:9 is listed twice"));
  EXPECT_TRUE(load_admin("address: [ 127.0.0.1:0, 127.0.0.1:0 ]").ok()) << "the kernel chooses two ports";
}

TEST(ConfigAsJson, HidesSecrets) {
  const auto config = load_text(R"(
listeners:
  - name: web
    address: 127.0.0.1:80
    http:
      request_headers: [ { name: authorization, set: Bearer hush-1 }, { name: X-Api-Key, add: hush-2 },
                         { name: x-plain, set: shown-1 } ]
      routes:
        - match: { headers: [ { name: Cookie, exact: hush-3 }, { name: x-other, exact: shown-2 } ],
                   query: [ { name: token, exact: hush-4 }, { name: page, exact: shown-3 } ] }
          forward: auth
        - forward: auth
upstreams:
  - name: auth
    endpoints: [ shown.example:80 ]
    sticky: { cookie: shown-4, secret: hush-5 }
)",
                                "f");
  ASSERT_TRUE(config.ok()) << config.status();
  JsonWriter json;
  write_config(*config, json);
  const std::string text = std::move(json).text();
  EXPECT_THAT(text, Not(HasSubstr("hush")));
  for (const char* shown : {"shown-1", "shown-2", "shown-3", "shown-4", "shown.example:80", "\"name\": \"X-Api-Key\"",
                            "\"name\": \"token\""}) {
    EXPECT_TRUE(absl::StrContains(absl::AsciiStrToLower(text), absl::AsciiStrToLower(shown))) << shown;
  }
  EXPECT_THAT(text, HasSubstr("\"set\": \"(hidden)\""));
}

TEST(ConfigAsJson, HasCountsAsNumbers) {
  for (const auto& [given, shown] :
       {std::pair("workers: 3\n", "\"workers\": 3"), std::pair("", "\"workers\": \"auto\"")}) {
    const auto config = load_text(absl::StrCat(given, "limits: { max_connections: 5 }", kRest), "f");
    ASSERT_TRUE(config.ok()) << config.status();
    JsonWriter json;
    write_config(*config, json);
    const std::string text = std::move(json).text();
    EXPECT_THAT(text, HasSubstr(shown));
    EXPECT_THAT(text, HasSubstr("\"max_connections\": 5"));
  }
}

}  // namespace
}  // namespace sluice::config
