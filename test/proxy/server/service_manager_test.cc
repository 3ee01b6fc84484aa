#include "proxy/server/service_manager.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

// A socket that receives what the service manager is told.
class Receiver {
 public:
  explicit Receiver(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0) << std::strerror(errno);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Receiver() {
    close(fd_);
    unsetenv("NOTIFY_SOCKET");
  }
  std::string next() const {
    char text[4096];
    const ssize_t got = recv(fd_, text, sizeof text, MSG_DONTWAIT);
    return got < 0 ? "nothing" : std::string(text, static_cast<size_t>(got));
  }

 private:
  const int fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

TEST(ServiceManager, SendsOneDatagramEach) {
  const Receiver receiver(absl::StrCat("@sluice-test-notify-", getpid()));
  ServiceManager manager = ServiceManager::from_environment();
  ASSERT_TRUE(manager.is_there());
  manager.ready("serves\n2 listeners");
  EXPECT_EQ(receiver.next(), "READY=1\nSTATUS=serves 2 listeners");
  manager.reloading();
  EXPECT_THAT(receiver.next(), MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+"));
  manager.main_pid(123);
  EXPECT_EQ(receiver.next(), "MAINPID=123");
  manager.feed_watchdog();
  EXPECT_EQ(receiver.next(), "WATCHDOG=1");
  manager.stopping("drains");
  EXPECT_EQ(receiver.next(), "STOPPING=1\nSTATUS=drains");
  ServiceManager moved = std::move(manager);
  manager.feed_watchdog();
  EXPECT_EQ(receiver.next(), "nothing");
  moved.feed_watchdog();
  EXPECT_EQ(receiver.next(), "WATCHDOG=1");
}

TEST(ServiceManager, SendsToAPath) {
  const std::string path = absl::StrCat(testing::TempDir(), "/sluice-notify-", getpid());
  const Receiver receiver(path);
  ServiceManager::from_environment().feed_watchdog();
  EXPECT_EQ(receiver.next(), "WATCHDOG=1");
  std::filesystem::remove(path);
}

TEST(ServiceManager, NeedsNone) {
  unsetenv("NOTIFY_SOCKET");
  EXPECT_FALSE(ServiceManager::from_environment().is_there());
  for (const std::string& name : {std::string("relative"), std::string("@"), std::string(200, '/')}) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    ServiceManager manager = ServiceManager::from_environment();
    EXPECT_FALSE(manager.is_there()) << name;
    manager.ready("");
  }
  setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
  ServiceManager::from_environment().ready("");  // Nobody receives it.
  unsetenv("NOTIFY_SOCKET");
}

// ---- The watchdog

Watchdog from(const char* usec, const std::string& pid) {
  setenv("WATCHDOG_USEC", usec, 1);
  pid.empty() ? unsetenv("WATCHDOG_PID") : setenv("WATCHDOG_PID", pid.c_str(), 1);
  Watchdog watchdog = Watchdog::from_environment();
  unsetenv("WATCHDOG_USEC");
  unsetenv("WATCHDOG_PID");
  return watchdog;
}

TEST(Watchdog, IsOnIfItIsForThisProcess) {
  EXPECT_FALSE(Watchdog::from_environment().is_on());
  EXPECT_EQ(Watchdog::from_environment().next(), Watchdog::Clock::time_point::max());
  EXPECT_TRUE(from("1000", "").is_on());
  EXPECT_TRUE(from("1000", absl::StrCat(getpid())).is_on());
  EXPECT_FALSE(from("1000", absl::StrCat(getpid() + 1)).is_on());
  EXPECT_FALSE(from("1000", "x").is_on());
  EXPECT_FALSE(from("-5", "").is_on());
  EXPECT_FALSE(from("much", "").is_on());
}

TEST(Watchdog, IsFedWhileAllWorkersAnswer) {
  Watchdog watchdog(milliseconds(20));
  const Watchdog::Clock::time_point start{};
  EXPECT_TRUE(watchdog.is_due(start));
  EXPECT_TRUE(watchdog.feeds(start, {{0}, {5}}));
  EXPECT_EQ(watchdog.next(), start + milliseconds(10));
  EXPECT_FALSE(watchdog.is_due(start + microseconds(9'999)));
  EXPECT_TRUE(watchdog.is_due(start + milliseconds(10)));
  EXPECT_TRUE(watchdog.feeds(start + milliseconds(10), {{1}, {6}}));
  EXPECT_FALSE(watchdog.feeds(start + milliseconds(20), {{2}, {6}})) << "the second is stuck";
  EXPECT_FALSE(watchdog.feeds(start + milliseconds(30), {{3}, {6}}));
  EXPECT_TRUE(watchdog.feeds(start + milliseconds(40), {{4}, {7}})) << "it goes on";
  EXPECT_FALSE(watchdog.feeds(start + milliseconds(50), {{4}, {8}})) << "the first is stuck";
  EXPECT_TRUE(watchdog.feeds(start + milliseconds(60), {{4, true}, {9}})) << "it has ended";
  EXPECT_EQ(watchdog.next(), start + milliseconds(70));
}

// ---- Passed sockets

int listening() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(listen(fd, 1), 0);
  return fd;
}

// Runs a test in a child process, whose descriptors from 3 on are these. Exits with 0 if `check` says so.
template <class Check>
int with_passed(std::vector<int> fds, const char* count, Check check) {
  const pid_t child = fork();
  if (child == 0) {
    for (int& fd : fds) fd = fcntl(fd, F_DUPFD, 100);  // Out of the way.
    for (size_t i = 0; i < fds.size(); ++i) dup2(fds[i], 3 + static_cast<int>(i));
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    setenv("LISTEN_FDS", count, 1);
    _exit(check() && !getenv("LISTEN_PID") && !getenv("LISTEN_FDS") ? 0 : 1);
  }
  for (const int fd : fds) close(fd);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(PassedSockets, AreTaken) {
  const int status = with_passed({listening(), listening()}, "2", [] {
    const auto fds = take_passed_sockets();
    return fds.ok() && *fds == std::vector<int>{3, 4} && fcntl(3, F_GETFD) == FD_CLOEXEC &&
           fcntl(4, F_GETFD) == FD_CLOEXEC && take_passed_sockets()->empty();
  });
  EXPECT_EQ(status, 0);
}

TEST(PassedSockets, MustListen) {
  const int status = with_passed({listening(), socket(AF_INET, SOCK_STREAM, 0)}, "2", [] {
    const absl::Status refused = take_passed_sockets().status();
    return refused.message().starts_with("descriptor 4 of LISTEN_FDS is no listening stream socket");
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(with_passed({}, "many", [] { return !take_passed_sockets().ok(); }), 0);
  EXPECT_EQ(with_passed({}, "-1", [] { return !take_passed_sockets().ok(); }), 0);
  EXPECT_EQ(with_passed({}, "0", [] { return take_passed_sockets()->empty(); }), 0);
}

TEST(PassedSockets, AreForOneProcess) {
  setenv("LISTEN_FDS", "3", 1);
  setenv("LISTEN_PID", std::to_string(getpid() + 1).c_str(), 1);
  const auto others = take_passed_sockets();
  ASSERT_TRUE(others.ok());
  EXPECT_THAT(*others, IsEmpty());
  EXPECT_EQ(getenv("LISTEN_FDS"), nullptr);
  setenv("LISTEN_FDS", "3", 1);
  setenv("LISTEN_PID", "me", 1);
  EXPECT_THAT(take_passed_sockets().status().message(), HasSubstr("LISTEN_PID must be a process ID"));
  EXPECT_THAT(*take_passed_sockets(), IsEmpty());
}

}  // namespace
}  // namespace sluice
