// A route is down while a file exists.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using test::FieldList;
using test::HttpOrigin;
using test::PeerStream;

class HttpMaintenance : public test::HttpRigTest {
 protected:
  HttpMaintenance() : origin(rig.add_origin()) { rig.config().forward.clear(); }
  ~HttpMaintenance() override {
    std::remove(file.c_str());
    std::remove(users.c_str());
  }

  config::HttpRoute& route(std::string prefix) {
    config::HttpRoute& made = rig.config().routes.emplace_back();
    made.match.emplace().path.emplace().prefix = std::move(prefix);
    made.forward = "origin";
    return made;
  }
  config::HttpRoute& maintained(std::string prefix) {
    config::HttpRoute& made = route(std::move(prefix));
    made.maintenance = {.file = file, .retry_after = std::chrono::minutes(5)};
    return made;
  }
  void begin() const { std::ofstream(file) << ""; }
  void end() const { std::remove(file.c_str()); }
  void wait_for_look() { rig.pass(std::chrono::seconds(1)); }

  void served(std::string_view path) {
    PeerStream& stream = rig.connect().send_request("GET", path);
    rig.request_at(origin, requests_++).respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
  }
  PeerStream& down(std::string_view path, FieldList fields = {}, uint16_t status = 503) {
    PeerStream& stream = rig.connect().send_request("POST", path, fields);
    rig.wait_over(stream);
    EXPECT_EQ(stream.head.status, status);
    return stream;
  }

  HttpOrigin& origin;
  const std::string file = absl::StrCat(testing::TempDir(), "maintenance_", getpid());
  const std::string users = file + "_users";

 private:
  size_t requests_ = 0;
};

TEST_P(HttpMaintenance, LastsAsLongAsTheFile) {
  maintained("/app");
  route("/");
  rig.start();
  served("/app");
  begin();
  wait_for_look();
  PeerStream& stream = down("/app/x");
  EXPECT_EQ(stream.field("retry-after"), "300");
  EXPECT_EQ(stream.body, "down for maintenance\n");
  served("/");
  end();
  wait_for_look();
  served("/app");
  rig.expect_ended(HttpEnd::kMaintenance, 1);
}

// Those who are not admitted learn nothing; pages of other origins may read that the route is down; nobody needs a
// password for that.
TEST_P(HttpMaintenance, BetweenAddressesAndPasswords) {
  maintained("/denied").deny = {config::Cidr::parse("127.0.0.0/8").value()};
  config::HttpRoute& both = maintained("/");
  both.cors.emplace().origins = {"https://page.example"};
  both.auth.emplace().basic.emplace().users_file = users;
  std::ofstream(users) << "bob:{SHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0=\n";
  begin();
  rig.start();
  EXPECT_EQ(down("/denied", {}, 403).field("retry-after"), "");
  PeerStream& stream = down("/", {{"origin", "https://page.example"}});
  EXPECT_EQ(stream.field("access-control-allow-origin"), "https://page.example");
  EXPECT_EQ(stream.field("www-authenticate"), "");
}

TEST_P(HttpMaintenance, CallsOfGrpc) {
  maintained("/");
  begin();
  rig.start();
  PeerStream& stream = down("/x/y", {{"content-type", "application/grpc"}, {"te", "trailers"}}, 200);
  EXPECT_EQ(stream.field("grpc-status"), "14");
  EXPECT_EQ(stream.field("grpc-message"), "down for maintenance");
}

SLUICE_EACH_VERSION(HttpMaintenance);

}  // namespace
}  // namespace sluice
