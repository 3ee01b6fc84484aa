// The admin listener with pages of the test's own, over real sockets.
#include "proxy/admin/admin_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "net/features.h"
#include "net/listener.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class FakePages final : public AdminPages {
 public:
  bool is_public(const AdminRequest& request) override { return request.path == "/public"; }
  bool needs_figures(const AdminRequest& request) override { return request.path == "/figures"; }
  void request_figures(const AdminRequest& request) override {
    ++requested;
    requested_for = request.query;
  }
  bool shares_figures(const AdminRequest& request) override { return request.query == requested_for; }
  bool has_figures() override { return has; }
  AdminResponse respond(const AdminRequest& request) override {
    if (request.path == "/large") return {.body = std::string(large, 'x')};
    return {.body = absl::StrCat(request.method, " ", request.path, " ?", request.query, " ", request.body, "\n")};
  }

  std::string requested_for;  // On the thread of the listener.
  std::atomic<int> requested{0};
  std::atomic<bool> has{true};
  std::atomic<size_t> large{size_t{8} << 20};
};

// A blocking client.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view text) { (void)!::send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }
  // Reads until `text` arrived, the connection ended, or nothing arrived for 30 seconds: the thread of the listener
  // gives way to all others (nice), and large responses take long under sanitizers.
  std::string read_until(std::string_view text) {
    std::string all;
    while (all.find(text) == std::string::npos) {
      pollfd ready{fd_, POLLIN, 0};
      if (poll(&ready, 1, 30'000) != 1) return all + " [waited 30 s for bytes]";
      char piece[65536];
      const ssize_t got = ::read(fd_, piece, sizeof piece);
      if (got <= 0) return all + " [end]";
      all.append(piece, static_cast<size_t>(got));
    }
    return all;
  }
  std::string get(std::string_view path, std::string_view fields = "") {
    send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: 127.0.0.1\r\n", fields, "\r\n"));
    return read_response();
  }
  // One response with a small body.
  std::string read_response() {
    std::string all = read_until("\r\n\r\n");
    constexpr std::string_view kLength = "content-length: ";
    const size_t at = all.find(kLength), head = all.find("\r\n\r\n");
    if (at == std::string::npos || head == std::string::npos) return all;
    const size_t bytes = head + 4 + std::stoul(all.substr(at + kLength.size()));
    return all.size() < bytes ? all + read_until("\n") : all;
  }
  bool ended_within(int ms) {
    pollfd ready{fd_, POLLIN, 0};
    char byte;
    return poll(&ready, 1, ms) == 1 && ::read(fd_, &byte, 1) <= 0;
  }

 private:
  const int fd_;
  bool connected_ = false;
};

class AdminServerTest : public testing::Test {
 protected:
  AdminServerTest() {
    config_.addresses = {*config::Address::parse("127.0.0.1:0")};
    auto features = probe_features(RingsMode::kAuto);
    EXPECT_TRUE(features.ok()) << features.status();
    EXPECT_TRUE(Worker::prepare_to_post().ok());
    auto server = AdminServer::start(pages_, counters_, *features);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void apply(std::optional<AdminToken> token = std::nullopt) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto fd = open_listener(reinterpret_cast<sockaddr*>(&address), sizeof address, {});
    ASSERT_TRUE(fd.ok()) << fd.status();
    socklen_t length = sizeof address;
    getsockname(*fd, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    server_->apply({.config = config_, .token = std::move(token)}, {{.fd = *fd, .family = AF_INET}});
  }

  template <class Condition>
  static bool wait_until(Condition condition) {
    for (int i = 0; i < 1000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  FakePages pages_;
  AdminCounters counters_;
  config::Admin config_;
  std::unique_ptr<AdminServer> server_;
  uint16_t port_ = 0;
};

TEST_F(AdminServerTest, RespondsToRequestsOnOneConnection) {
  apply();
  Client client(port_);
  EXPECT_THAT(client.get("/a?b=c"), HasSubstr("HTTP/1.1 200 OK"));
  client.send("PUT /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  EXPECT_THAT(client.read_until("abc\n"), HasSubstr("PUT /a ? abc\n"));
  client.send("HEAD /large HTTP/1.1\r\nHost: localhost\r\n\r\nGET /b HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.read_until("/b"), HasSubstr("content-length: 8388608\r\n\r\nHTTP/1.1 200 OK"));
  EXPECT_EQ(counters_.requests.value(), 4u);
}

TEST_F(AdminServerTest, LargeResponsesArriveWhole) {
  apply();
  Client client(port_);
  client.send("GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string all = client.read_until("no such text");
  EXPECT_EQ(all.size() - all.find("\r\n\r\n") - 4 - std::string_view(" [end]").size(), pages_.large.load());
}

TEST_F(AdminServerTest, RefusesLargeBodiesAndMalformedRequests) {
  apply();
  Client large(port_);
  large.send(
      absl::StrCat("PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n", std::string(5000, 'x')));
  EXPECT_THAT(large.read_until("bytes\n"), HasSubstr("HTTP/1.1 413 "));
  Client malformed(port_);
  malformed.send("\x16\x03\x01 garbage\r\n\r\n");
  EXPECT_THAT(malformed.read_until("no such text"), StartsWith("HTTP/1.1 400 "));
  Client long_head(port_);
  long_head.send(absl::StrCat("GET / HTTP/1.1\r\nHost: localhost\r\nX: ", std::string(20000, 'x'), "\r\n\r\n"));
  EXPECT_THAT(long_head.read_until("no such text"), StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(counters_.too_large.value(), 1u);
  EXPECT_TRUE(wait_until([&] { return counters_.malformed.value() == 2; }));
}

TEST_F(AdminServerTest, TokenIsNeededByEachRequest) {
  const std::string token = "0123456789abcdef";
  apply(AdminToken(token));
  Client client(port_);
  for (const char* fields : {"", "Authorization: Bearer 0123456789abcdeX\r\n", "Authorization: Bearer\r\n",
                             "Authorization: Basic 0123456789abcdef\r\n",
                             "Authorization: Bearer 0123456789abcdef\r\nAuthorization: Bearer 0123456789abcdef\r\n"}) {
    EXPECT_THAT(client.get("/a", fields), HasSubstr("HTTP/1.1 401 ")) << fields;
  }
  EXPECT_THAT(client.get("/a", "Authorization: bearer 0123456789abcdef\r\n"), HasSubstr(" 200 "));
  EXPECT_THAT(client.get("/public"), HasSubstr(" 200 ")) << "a page that is for all";
  EXPECT_EQ(counters_.unauthorized.value(), 5u);
}

// A page of another site could make a browser on this machine send requests, under a name that leads here.
TEST_F(AdminServerTest, RefusesOtherHostsWithoutAToken) {
  apply();
  for (const char* host : {"evil.example", "evil.example:9901", "localhost.evil.example", "1.2.3.4.evil.example"}) {
    Client client(port_);
    client.send(absl::StrCat("GET / HTTP/1.1\r\nHost: ", host, "\r\n\r\n"));
    EXPECT_THAT(client.read_until("\r\n"), StartsWith("HTTP/1.1 403 ")) << host;
  }
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1:9901", "[::1]:9901", "10.1.2.3"}) {
    Client client(port_);
    client.send(absl::StrCat("GET / HTTP/1.1\r\nHost: ", host, "\r\n\r\n"));
    EXPECT_THAT(client.read_until("\r\n"), StartsWith("HTTP/1.1 200 ")) << host;
  }
  EXPECT_EQ(counters_.refused_hosts.value(), 4u);
}

// Its own page may change something, and nothing else in a browser. Links lead here all the same.
TEST_F(AdminServerTest, RefusesPagesOfOtherSites) {
  apply();
  const auto status_of = [&](std::string_view method, std::string_view fields) {
    Client client(port_);
    client.send(absl::StrCat(method, " /a HTTP/1.1\r\nHost: 127.0.0.1:9901\r\n", fields, "Content-Length: 0\r\n\r\n"));
    return client.read_until("\r\n").substr(9, 3);
  };
  for (const char* fields :
       {"Origin: http://evil.example\r\n", "Origin: http://evil.example:9901\r\n", "Origin: null\r\n", "Origin:\r\n",
        "Origin: https://127.0.0.1:9901\r\n", "Origin: http://127.0.0.1\r\n", "Origin: http://127.0.0.1:99010\r\n",
        "Origin: http://localhost:9901\r\n", "Origin: http://127.0.0.1:9901\r\nOrigin: http://127.0.0.1:9901\r\n",
        "Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\nOrigin: http://127.0.0.1:9901\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n"}) {
    for (const char* method : {"GET", "POST", "PUT", "DELETE", "OPTIONS"}) EXPECT_EQ(status_of(method, fields), "403");
  }
  EXPECT_EQ(counters_.refused_origins.value(), 13u * 5);
  for (const char* fields :
       {"", "Origin: http://127.0.0.1:9901\r\n", "Sec-Fetch-Site: none\r\n",
        "Origin: http://127.0.0.1:9901\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n"}) {
    for (const char* method : {"GET", "POST", "PUT", "DELETE"}) EXPECT_EQ(status_of(method, fields), "200") << fields;
  }
  const char* link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
  EXPECT_EQ(status_of("GET", link), "200");
  EXPECT_EQ(status_of("POST", link), "403") << "a form";
  EXPECT_EQ(counters_.refused_hosts.value(), 0u);
}

// A proxy in front may send the token for whoever comes by it, and may have another name. What browsers say stays.
TEST_F(AdminServerTest, RefusesPagesOfOtherSitesWithAToken) {
  const std::string token = "0123456789abcdef";
  apply(AdminToken(token));
  Client client(port_);
  const std::string good = absl::StrCat("Authorization: Bearer ", token, "\r\n");
  EXPECT_THAT(client.get("/a", absl::StrCat(good, "Origin: https://admin.example\r\n")), HasSubstr(" 200 "));
  EXPECT_THAT(client.get("/a", absl::StrCat(good, "Sec-Fetch-Site: cross-site\r\n")), HasSubstr(" 403 "));
  EXPECT_EQ(counters_.refused_origins.value(), 1u);
}

TEST_F(AdminServerTest, WaitsForFiguresAndGivesUp) {
  apply();
  pages_.has = false;
  Client first(port_), second(port_);
  const auto began = std::chrono::steady_clock::now();
  first.send("GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(wait_until([&] { return pages_.requested == 1; }));
  second.send("GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n");
  Client other(port_);
  EXPECT_THAT(other.get("/a"), HasSubstr(" 200 ")) << "other requests do not wait";
  EXPECT_THAT(first.read_until("figures"), HasSubstr(" 200 "));
  EXPECT_THAT(second.read_until("figures"), HasSubstr(" 200 "));
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(AdminServer::kFiguresTimeoutMs - 10));
  EXPECT_EQ(pages_.requested, 1) << "they share the figures";
  EXPECT_EQ(counters_.figures_timeouts.value(), 2u);
  pages_.has = true;
  EXPECT_THAT(first.get("/figures"), HasSubstr(" 200 "));
  EXPECT_EQ(pages_.requested, 2);
  EXPECT_EQ(counters_.figures_timeouts.value(), 2u);
}

TEST_F(AdminServerTest, RequestsThatNeedOtherFiguresWaitForTheirTurn) {
  apply();
  pages_.has = false;
  Client first(port_), other(port_), same(port_);
  first.send("GET /figures?a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(wait_until([&] { return pages_.requested == 1; }));
  other.send("GET /figures?b HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(wait_until([&] { return counters_.requests.value() == 2; }));
  same.send("GET /figures?a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(wait_until([&] { return counters_.requests.value() == 3; }));
  pages_.has = true;
  EXPECT_THAT(first.read_until("figures"), HasSubstr(" 200 "));
  EXPECT_THAT(same.read_until("figures"), HasSubstr(" 200 "));
  EXPECT_THAT(other.read_until("figures"), HasSubstr(" 200 "));
  EXPECT_GE(pages_.requested, 2) << "one for each of the two queries";
  const bool in_time = counters_.figures_timeouts.value() == 0;
  EXPECT_TRUE(pages_.requested == 2 || !in_time) << "equal queries share them";
}

TEST_F(AdminServerTest, ClientMayLeaveWhileItsResponseWaits) {
  apply();
  pages_.has = false;
  {
    Client client(port_);
    client.send("GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ASSERT_TRUE(wait_until([&] { return pages_.requested == 1; }));
  }
  EXPECT_TRUE(wait_until([&] { return counters_.open.value() == 0; }));
  Client other(port_);
  EXPECT_THAT(other.get("/a"), HasSubstr(" 200 "));
}

TEST_F(AdminServerTest, ConnectionsWithoutRequestMakeRoom) {
  config_.max_connections = 4;
  apply();
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 200; ++i) idle.push_back(std::make_unique<Client>(port_));
  Client client(port_);
  EXPECT_THAT(client.get("/a"), HasSubstr(" 200 "));
  EXPECT_TRUE(idle.front()->ended_within(5000));
  EXPECT_TRUE(wait_until([&] { return counters_.accepted.value() == 201 && counters_.open.value() <= 4; }));
  EXPECT_EQ(counters_.evicted.value(), 197u);
  EXPECT_EQ(counters_.refused_connections.value(), 0u);
}

TEST_F(AdminServerTest, RefusesConnectionsWhileAllOthersHaveRequests) {
  config_.max_connections = 2;
  apply();
  pages_.has = false;
  Client first(port_), second(port_);
  first.send("GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n");
  second.send("GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(wait_until([&] { return counters_.requests.value() == 2; }));
  Client third(port_);
  EXPECT_TRUE(third.ended_within(5000));
  EXPECT_EQ(counters_.refused_connections.value(), 1u);
  EXPECT_THAT(first.read_until("figures"), HasSubstr(" 200 "));
}

TEST_F(AdminServerTest, SlowClientsAreEnded) {
  config_.idle_timeout = std::chrono::milliseconds(300);
  config_.header_timeout = std::chrono::milliseconds(400);
  config_.send_timeout = std::chrono::milliseconds(500);
  apply();
  Client idle(port_), slow_head(port_), slow_body(port_), reader(port_);
  slow_head.send("GET / HT");
  slow_body.send("PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\na");
  reader.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(idle.ended_within(5000));
  EXPECT_TRUE(slow_head.ended_within(5000));
  EXPECT_TRUE(slow_body.ended_within(5000));
  EXPECT_TRUE(wait_until([&] { return counters_.send_timeouts.value() == 1; }));
  EXPECT_TRUE(wait_until([&] { return counters_.open.value() == 0; }));
  EXPECT_EQ(counters_.idle_timeouts.value(), 1u);
  EXPECT_EQ(counters_.header_timeouts.value(), 2u);
  Client again(port_);
  EXPECT_THAT(again.get("/a"), HasSubstr(" 200 "));
}

TEST_F(AdminServerTest, OutputThatWaitsIsBounded) {
  apply();
  pages_.large = AdminServices::kMaxResponseBytes - 1000;
  Client reader(port_);
  reader.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(wait_until([&] { return counters_.requests.value() == 1; }));
  Client second(port_);
  ASSERT_THAT(second.get("/large"), HasSubstr("HTTP/1.1 503 "));
  EXPECT_EQ(counters_.refused_memory.value(), 1u);
  EXPECT_THAT(second.get("/a"), HasSubstr(" 200 ")) << "small ones have room";
}

TEST_F(AdminServerTest, LeavesAndAcceptsAgain) {
  apply();
  Client kept(port_), fresh(port_);
  EXPECT_THAT(kept.get("/a"), HasSubstr(" 200 "));
  ASSERT_TRUE(wait_until([&] { return counters_.open.value() == 2; }));
  server_->leave();
  EXPECT_TRUE(kept.ended_within(5000)) << "an idle connection ends";
  EXPECT_THAT(fresh.get("/a"), HasSubstr("connection: close")) << "a new one has one request";
  EXPECT_TRUE(fresh.ended_within(5000));
  Client waiting(port_);  // In the backlog, for the other process.
  waiting.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_FALSE(waiting.ended_within(100));
  server_->accept_again();
  EXPECT_THAT(waiting.read_until("/a"), HasSubstr(" 200 "));
}

// Defect: a client that had just connected was cut off when the process ended in an upgrade.
TEST_F(AdminServerTest, RequestsInProgressEndBeforeTheThread) {
  apply();
  pages_.has = false;
  Client waiting(port_), fresh(port_);
  waiting.send("GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(wait_until([&] { return pages_.requested == 1 && counters_.open.value() == 2; }));
  std::thread stop([this] { server_.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  fresh.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  pages_.has = true;
  EXPECT_THAT(fresh.read_response(), HasSubstr(" 200 "));
  EXPECT_THAT(waiting.read_response(), HasSubstr(" 200 "));
  stop.join();
}

TEST_F(AdminServerTest, NewSocketsReplaceOldOnes) {
  apply();
  Client old(port_);
  EXPECT_THAT(old.get("/a"), HasSubstr(" 200 "));
  const uint16_t old_port = port_;
  apply(AdminToken("0123456789abcdef"));
  EXPECT_NE(port_, old_port);
  EXPECT_THAT(old.get("/a"), HasSubstr(" 401 ")) << "open connections follow the new settings";
  Client late(old_port);
  EXPECT_TRUE(late.ended_within(5000)) << "the old socket is closed";
}

TEST(AdminToken, ReadsAFile) {
  const std::string path = absl::StrCat(testing::TempDir(), "admin_token_", getpid());
  const auto read = [&](std::string_view text) {
    std::ofstream(path) << text;
    return AdminToken::read(path);
  };
  Fields fields;
  auto pool = std::make_unique<ChunkPool>(ChunkPool::Options{});
  const ChunkPool::Use use(pool.get());
  ASSERT_TRUE(fields.add(*pool, "authorization", "Bearer 0123456789abcdef"));
  EXPECT_TRUE(read("0123456789abcdef\n")->admits(fields));
  EXPECT_FALSE(read("0123456789abcdeg\n")->admits(fields));
  for (const char* text : {"", "short", "0123456789 abcdef", "0123456789abcdef\n0123456789abcdef\n"}) {
    EXPECT_THAT(read(text).status().message(), HasSubstr("expected a token of 16 to 512 printable characters")) << text;
  }
  std::remove(path.c_str());
  EXPECT_THAT(AdminToken::read(path).status().message(), HasSubstr("cannot read "));
  fields.clear();
}

}  // namespace
}  // namespace sluice
