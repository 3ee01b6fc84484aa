#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "test/proxy/log/log_rig.h"

namespace sluice {
namespace {

using test::milliseconds, test::seconds;
using testing::HasSubstr, testing::MatchesRegex;

class SyslogTest : public test::LogTest {
 protected:
  ~SyslogTest() override {
    if (fd_ >= 0) ::close(fd_);
  }

  void serve_path(const std::string& at) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    at.copy(address.sun_path, sizeof address.sun_path - 1);
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    ASSERT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  uint16_t serve_udp() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    return ntohs(address.sin_port);
  }
  std::string datagram() {
    char bytes[65536];
    ssize_t count = -1;
    EXPECT_TRUE(comes_true([&] { return (count = recv(fd_, bytes, sizeof bytes, 0)) > 0; }));
    return {bytes, static_cast<size_t>(std::max<ssize_t>(count, 0))};
  }
  // The message behind the header of RFC 5424.
  std::string message() {
    const std::string text = datagram();
    EXPECT_THAT(
        text, MatchesRegex("<30>1 [-0-9]{10}T[0-9:.]{12}Z [^ ]+ sluice " + std::to_string(getpid()) + " access - .*"));
    return text.substr(text.find(" - ") + 3);
  }

  int fd_ = -1;
};

TEST_F(SyslogTest, EachLineIsADatagram) {
  serve_path(path("socket"));
  const auto logs = open({"syslog:" + path("socket")}, 2);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(put(logs->writer(0, 0), line_of(0, i, 100)));
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(message() + "\n", line_of(0, i, 100));
  EXPECT_TRUE(put(logs->writer(0, 1), line_of(1, 0, kMaxLogLineBytes)));
  EXPECT_EQ(message() + "\n", line_of(1, 0, kMaxLogLineBytes));
  EXPECT_TRUE(comes_true([&] { return logs->written(0) == 6; }));
  EXPECT_EQ(logs->dropped(0), 0u);
}

TEST_F(SyslogTest, Udp) {
  const auto logs = open({"syslog:127.0.0.1:" + std::to_string(serve_udp())});
  EXPECT_TRUE(put(logs->writer(0, 0), line_of(0, 7, kMaxLogLineBytes)));
  EXPECT_EQ(message() + "\n", line_of(0, 7, kMaxLogLineBytes));
}

TEST_F(SyslogTest, WaitsForADaemonThatReadsSlowly) {
  serve_path(path("socket"));
  const auto logs = open({"syslog:" + path("socket")});
  constexpr uint64_t kLines = 300;
  for (uint64_t i = 0; i < kLines; ++i) EXPECT_TRUE(put(logs->writer(0, 0), line_of(0, i, 500)));
  for (uint64_t i = 0; i < kLines; ++i) ASSERT_EQ(message() + "\n", line_of(0, i, 500));
  EXPECT_EQ(logs->dropped(0), 0u);
  EXPECT_EQ(logs->errors(0), 0u);
}

// The lines wait, and none is sent twice.
TEST_F(SyslogTest, FindsADaemonThatComesBack) {
  serve_path(path("socket"));
  const auto logs = open({"syslog:" + path("socket")});
  EXPECT_TRUE(put(logs->writer(0, 0), line_of(0, 0, 50)));
  EXPECT_EQ(message() + "\n", line_of(0, 0, 50));
  ::close(fd_);
  std::filesystem::remove(path("socket"));
  for (uint64_t i = 1; i < 4; ++i) EXPECT_TRUE(put(logs->writer(0, 0), line_of(0, i, 50)));
  EXPECT_TRUE(comes_true([&] { return logs->errors(0) > 0; }));
  serve_path(path("socket"));
  for (uint64_t i = 1; i < 4; ++i) EXPECT_EQ(message() + "\n", line_of(0, i, 50));
  EXPECT_TRUE(comes_true([&] { return logs->written(0) == 4; }));
  EXPECT_EQ(logs->dropped(0), 0u);
}

// Not even the exit waits long for it.
TEST_F(SyslogTest, LeavesADaemonThatReadsNothing) {
  serve_path(path("socket"));
  auto logs = open({"syslog:" + path("socket")});
  size_t taken = 0;
  while (put(logs->writer(0, 0), line_of(0, 0, 8000))) ++taken;
  const auto before = std::chrono::steady_clock::now();
  logs->close();
  EXPECT_LT(std::chrono::steady_clock::now() - before, seconds(5));
  EXPECT_EQ(logs->written(0) + logs->dropped(0), taken + 1);
  EXPECT_GT(logs->dropped(0), 1u);
}

TEST_F(SyslogTest, RefusesWhatCannotBeOpened) {
  const auto error = [](const std::string& target) {
    return std::string(AccessLogs::open({target}, 1).status().message());
  };
  EXPECT_THAT(error("syslog:" + path("none")),
              HasSubstr("access log \"syslog:" + path("none") +
                        "\": cannot be connected to; start the syslog daemon, or name"));
  EXPECT_THAT(error("syslog:none"), HasSubstr("expected the absolute path of a socket"));
}

}  // namespace
}  // namespace sluice
