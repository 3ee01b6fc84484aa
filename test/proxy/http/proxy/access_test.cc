// Access control: by address, password and token; and CORS. Between any two versions of HTTP.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "net/helper_threads.h"
#include "proxy/http/proxy/exchange.h"
#include "test/proxy/auth/token_maker.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using test::FieldList;
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;
using test::TokenMaker;

constexpr std::string_view kFastHash = "bob:{SHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0=\n";  // hunter2
constexpr std::string_view kSlowHash = "bob:$2y$04$dQbGfA7a8i8t/Lr0c8CZmu1bLyu.Hv5Shsm1pwLrEnZCPcGrzfSxW\n";

config::Cidr range(std::string_view text) { return config::Cidr::parse(text).value(); }
config::FieldName name(std::string_view text) { return config::FieldName::parse(text).value(); }
std::string basic(std::string_view name_and_password) {
  return absl::StrCat("Basic ", absl::Base64Escape(name_and_password));
}

class HttpAccess : public test::HttpRigTest {
 protected:
  HttpAccess() : origin(rig.add_origin()) { rig.config().forward.clear(); }
  ~HttpAccess() override {
    for (const std::string& path : files_) std::remove(path.c_str());
  }

  config::HttpRoute& forward(std::string prefix) {
    config::HttpRoute& made = rig.config().routes.emplace_back();
    made.match.emplace().path.emplace().prefix = std::move(prefix);
    made.forward = "origin";
    return made;
  }
  std::string write(std::string_view text) {
    files_.push_back(absl::StrCat(testing::TempDir(), "access_", getpid(), "_", files_.size()));
    rewrite(files_.back(), text);
    return files_.back();
  }
  static void rewrite(const std::string& path, std::string_view text) { std::ofstream(path) << text; }

  /// Sends a request, and expects this response of the proxy's own.
  PeerStream& refused(FieldList fields, uint16_t status, std::string_view path = "/", std::string_view method = "GET") {
    PeerStream& stream = rig.connect().send_request(method, path, fields);
    rig.wait_over(stream);
    EXPECT_EQ(stream.head.status, status);
    return stream;
  }
  /// Sends a request, and expects it to reach the origin.
  PeerStream& served(FieldList fields, std::string_view path = "/", std::string_view method = "GET") {
    PeerStream& stream = rig.connect().send_request(method, path, fields);
    PeerStream& got = rig.request_at(origin, requests_++);
    got.respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
    response = &stream;
    return got;
  }

  HttpOrigin& origin;
  PeerStream* response = nullptr;

 private:
  size_t requests_ = 0;
  std::vector<std::string> files_;
};

TEST_P(HttpAccess, ByAddress) {
  forward("/denied").deny = {range("127.0.0.0/8")};
  forward("/other").allow = {range("10.0.0.0/8")};
  config::HttpRoute& both = forward("/both");
  both.allow = {range("127.0.0.0/8")};
  both.deny = {range("127.0.0.1")};
  forward("/").allow = {range("10.0.0.0/8"), range("127.0.0.1")};
  rig.start();
  EXPECT_EQ(refused({}, 403, "/denied").body, "this client or origin is not allowed here\n");
  refused({}, 403, "/other");
  refused({}, 403, "/both");
  served({});
  rig.expect_ended(HttpEnd::kForbidden, 3);
}

TEST_P(HttpAccess, ByAddressOnTheWholeListener) {
  rig.config().deny = {range("127.0.0.1")};
  forward("/a").allow = {range("127.0.0.1")};
  config::HttpRoute& responding = rig.config().routes.emplace_back();
  responding.match.emplace().path.emplace().prefix = "/b";
  responding.respond.emplace();
  rig.start();
  refused({}, 403, "/a");
  refused({}, 403, "/b");  // The route's own response is refused, too,
  refused({}, 403, "/c");  // and so is the lack of a route.
  rig.expect_ended(HttpEnd::kForbidden, 3);
}

TEST_P(HttpAccess, Passwords) {
  config::HttpRoute& route = forward("/");
  route.auth.emplace().basic.emplace().users_file = write(kFastHash);
  route.auth->basic->realm = "the shed";
  rig.start();
  EXPECT_EQ(refused({}, 401).field("www-authenticate"), "Basic realm=\"the shed\", charset=\"UTF-8\"");
  const std::string good = basic("bob:hunter2");
  for (const std::string& bad :
       {basic("bob:hunter3"), basic("eve:hunter2"), basic("bob"), std::string("Basic"), std::string("Basic !"),
        "Bearer " + good.substr(6), basic("bob:" + std::string(1000, 'x'))}) {
    refused({{"authorization", bad}}, 401);
  }
  refused({{"authorization", good}, {"authorization", good}}, 401);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(served({{"authorization", good}}).field("authorization"), "");
  rig.expect_ended(HttpEnd::kUnauthorized, 9);
}

TEST_P(HttpAccess, CredentialsAreForwardedIfConfigured) {
  config::HttpRoute& route = forward("/");
  route.auth.emplace().basic.emplace().users_file = write(kFastHash);
  route.auth->forward = true;
  rig.start();
  EXPECT_EQ(served({{"authorization", basic("bob:hunter2")}}).field("authorization"), basic("bob:hunter2"));
}

// A slow hash is computed on another thread. The rest of the request waits meanwhile.
TEST_P(HttpAccess, SlowPasswords) {
  forward("/").auth.emplace().basic.emplace().users_file = write(kSlowHash);
  rig.start();
  rig.add_desk();
  const std::string good = basic("bob:hunter2");
  PeerStream& stream = rig.connect().send_request("POST", "/", {{"authorization", good}}, /*end=*/false);
  stream.send("some ");
  stream.send("data", true);
  PeerStream& got = rig.request_at(origin, 0);
  rig.wait_over(got);
  EXPECT_EQ(got.body, "some data");
  got.respond(200, "fine");
  rig.expect_response(stream, 200, "fine");
  refused({{"authorization", basic("bob:hunter3")}}, 401);
  refused({{"authorization", basic("eve:hunter2")}}, 401);
  PeerStream& again = rig.connect().send_request("GET", "/", {{"authorization", good}});
  rig.request_at(origin, 1).respond(200, "fine");
  rig.expect_response(again, 200, "fine");
  rig.expect_ended(HttpEnd::kUnauthorized, 2);
}

// Defect: a client that waited for the check of its password was never read again if its request was collected.
TEST_P(HttpAccess, BodiesAreCollectedAfterPasswords) {
  config::HttpRoute& route = forward("/");
  route.auth.emplace().basic.emplace().users_file = write(kSlowHash);
  route.buffer.emplace().requests = {1 << 20};
  rig.config().buffer_high = {16 << 10};
  rig.start();
  rig.add_desk();
  const std::string body = test::stream_bytes(1, 0, 500'000);
  PeerStream& stream =
      rig.connect().send_request("POST", "/", {{"authorization", basic("bob:hunter2")}}, /*end=*/false);
  stream.send(body, true);
  PeerStream& got = rig.request_at(origin, 0);
  rig.wait_over(got);
  EXPECT_TRUE(got.body == body) << got.body.size();
  got.respond(200, "fine");
  rig.expect_response(stream, 200, "fine");
}

// Possible defects: a response for a request that has ended; a check that finds its authenticator changed.
TEST_P(HttpAccess, ClientMayLeaveDuringPasswordCheck) {
  const std::string path = write(kSlowHash);
  forward("/").auth.emplace().basic.emplace().users_file = path;
  rig.start();
  rig.add_desk();
  for (int i = 0; i < 10; ++i) {
    PeerStream& stream = rig.connect().send_request("GET", "/", {{"authorization", basic(absl::StrCat("bob:", i))}});
    if (i % 2 == 0) rig.settle(3);
    stream.cancel();
  }
  rewrite(path, "eve:{SHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0=\n");
  rig.read_auth_files();
  refused({{"authorization", basic("bob:hunter2")}}, 401);
  served({{"authorization", basic("eve:hunter2")}});
}

TEST_P(HttpAccess, Tokens) {
  static const TokenMaker maker("ES256"), other("ES256");
  const std::string path = write(maker.jwks());
  config::JwtAuth& jwt = forward("/api").auth.emplace().jwt.emplace();
  jwt.jwks_file = path;
  jwt.audience = {"api"};
  jwt.claims = {{"sub", name("x-user")}};
  forward("/");
  rig.start();
  const auto token = [](const TokenMaker& by, std::string_view audience, int64_t expires_s = 4'000'000'000) {
    return absl::StrCat("Bearer ",
                        by.token(absl::StrCat(R"({"sub":"me","aud":")", audience, R"(","exp":)", expires_s, "}")));
  };
  EXPECT_EQ(refused({}, 401, "/api").field("www-authenticate"), "Bearer realm=\"sluice\"");
  const std::string good = token(maker, "api");
  for (int i = 0; i < 2; ++i) {
    PeerStream& got = served({{"authorization", good}, {"x-user", "somebody else"}}, "/api/x");
    EXPECT_EQ(got.field("x-user"), "me");
    EXPECT_EQ(got.head.fields.find("x-user", got.head.fields.find("x-user") + 1), Fields::npos);
    EXPECT_EQ(got.field("authorization"), "");
  }
  EXPECT_EQ(
      refused({{"authorization", token(maker, "web")}}, 401, "/api").field("www-authenticate"),
      "Bearer realm=\"sluice\", error=\"invalid_token\", error_description=\"the token is for another audience\"");
  refused({{"authorization", token(maker, "api", 1'000'000'000)}}, 401, "/api");
  refused({{"authorization", token(other, "api")}}, 401, "/api");
  // Where no token is required, a client cannot claim an identity either; its own Authorization is forwarded unchanged.
  PeerStream& open = served({{"authorization", "mine"}, {"x-user", "somebody else"}});
  EXPECT_EQ(open.field("x-user"), "");
  EXPECT_EQ(open.field("authorization"), "mine");
  rewrite(path, other.jwks());
  rig.read_auth_files();
  refused({{"authorization", good}}, 401, "/api");
  served({{"authorization", token(other, "api")}}, "/api");
}

TEST_P(HttpAccess, GrpcCalls) {
  config::HttpRoute& denied = forward("/denied");
  denied.deny = {range("127.0.0.1")};
  forward("/").auth.emplace().basic.emplace().users_file = write(kFastHash);
  rig.start();
  const FieldList call = {{"content-type", "application/grpc"}, {"te", "trailers"}};
  PeerStream& forbidden = refused(call, 200, "/denied/x", "POST");
  EXPECT_EQ(forbidden.field("grpc-status"), "7");
  PeerStream& unknown = refused(call, 200, "/x/y", "POST");
  EXPECT_EQ(unknown.field("grpc-status"), "16");
}

TEST_P(HttpAccess, Cors) {
  config::HttpRoute& route = forward("/");
  config::Cors& cors = route.cors.emplace();
  cors.origins = {"https://page.example"};
  cors.methods = {"GET", "DELETE"};
  cors.headers = {name("x-a")};
  cors.expose = {name("x-b")};
  route.auth.emplace().basic.emplace().users_file = write(kFastHash);  // Preflights have no credentials.
  rig.start();
  const FieldList preflight_fields = {{"origin", "https://page.example"}, {"access-control-request-method", "DELETE"}};
  PeerStream& preflight = refused(preflight_fields, 204, "/", "OPTIONS");
  EXPECT_EQ(preflight.field("access-control-allow-origin"), "https://page.example");
  EXPECT_EQ(preflight.field("access-control-allow-methods"), "GET, DELETE");
  EXPECT_EQ(preflight.field("access-control-allow-headers"), "x-a");
  EXPECT_EQ(preflight.field("access-control-max-age"), "600");
  EXPECT_EQ(preflight.field("vary"), "Origin");
  EXPECT_EQ(preflight.body, "");
  rig.expect_ended(HttpEnd::kOk, 1);
  const FieldList evil = {{"origin", "https://evil.example"}, {"access-control-request-method", "DELETE"}};
  EXPECT_EQ(refused(evil, 403, "/", "OPTIONS").field("access-control-allow-origin"), "");
  // A page may read why it was refused.
  EXPECT_EQ(refused({{"origin", "https://page.example"}}, 401).field("access-control-allow-origin"),
            "https://page.example");
  const std::string good = basic("bob:hunter2");
  served({{"origin", "https://page.example"}, {"authorization", good}});
  EXPECT_EQ(response->field("access-control-allow-origin"), "https://page.example");
  EXPECT_EQ(response->field("access-control-expose-headers"), "x-b");
  EXPECT_EQ(response->field("vary"), "Origin");
  served({{"origin", "https://evil.example"}, {"authorization", good}});
  EXPECT_EQ(response->field("access-control-allow-origin"), "");
  EXPECT_EQ(response->field("vary"), "Origin");
  // An OPTIONS request that is not a preflight is an ordinary request.
  served({{"origin", "https://page.example"}, {"authorization", good}}, "/", "OPTIONS");
}

// The client's Origin counts, even if upstreams do not receive it.
TEST_P(HttpAccess, CorsWithoutOriginForUpstream) {
  config::HttpRoute& route = forward("/");
  route.cors.emplace().origins = {"https://page.example"};
  route.request_headers = {{.name = name("origin"), .remove = true}};
  rig.start();
  EXPECT_EQ(served({{"origin", "https://page.example"}}).field("origin"), "");
  EXPECT_EQ(response->field("access-control-allow-origin"), "https://page.example");
}

SLUICE_EACH_VERSION(HttpAccess);

}  // namespace
}  // namespace sluice
