// What the old and the new process of an upgrade say to each other.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <utility>

#include "proxy/server/handed_values.h"
#include "proxy/server/handover_channel.h"

namespace sluice {
namespace {

class HandoverChannelTest : public ::testing::Test {
 protected:
  HandoverChannelTest() : HandoverChannelTest(make_pair()) {}
  explicit HandoverChannelTest(std::array<int, 2> ends) : raw(ends[0]), one(ends[0]), two(ends[1]) {}
  static std::array<int, 2> make_pair() {
    std::array<int, 2> ends;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    return ends;
  }
  int raw;
  HandoverChannel one, two;
};

TEST_F(HandoverChannelTest, MessagesWithDescriptors) {
  std::array<int, 2> pipe_ends;
  ASSERT_EQ(pipe2(pipe_ends.data(), O_CLOEXEC), 0);
  const std::string large(3 << 20, 'x');
  std::thread sender([&] {
    EXPECT_TRUE(one.send(HandoverType::kSession, "first", {pipe_ends[1]}).ok());
    EXPECT_TRUE(one.send(HandoverType::kReady).ok());
    EXPECT_TRUE(one.send(HandoverType::kSession, large, {pipe_ends[1], pipe_ends[1]}).ok());
  });
  auto message = two.receive(5000);
  ASSERT_TRUE(message.ok() && *message);
  EXPECT_EQ((*message)->type, HandoverType::kSession);
  EXPECT_EQ(text_of((*message)->content), "first");
  ASSERT_EQ((*message)->fds.size(), 1u);
  EXPECT_EQ(write((*message)->fds[0], "y", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_NE(fcntl((*message)->fds[0], F_GETFD) & FD_CLOEXEC, 0);
  close((*message)->fds[0]);
  message = two.receive(5000);
  ASSERT_TRUE(message.ok() && *message);
  EXPECT_EQ((*message)->type, HandoverType::kReady);
  message = two.receive(5000);
  ASSERT_TRUE(message.ok() && *message);
  EXPECT_EQ(text_of((*message)->content), large);
  ASSERT_EQ((*message)->fds.size(), 2u);
  for (const int fd : (*message)->fds) close(fd);
  sender.join();
  message = two.receive(0);
  EXPECT_TRUE(message.ok() && !*message);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(HandoverChannelTest, AnotherFormat) {
  const std::array<uint8_t, 8> header{99, 3, 0, 0, 0, 0, 0, 0};
  ASSERT_EQ(write(raw, header.data(), header.size()), 8);
  EXPECT_NE(two.receive(0).status().message().find("another format of handing over (99, expected 1)"),
            std::string_view::npos);
}

TEST_F(HandoverChannelTest, MalformedMessages) {
  const std::array<std::array<uint8_t, 8>, 2> headers{{
      {1, 3, 0, 0, 0xff, 0, 0, 0},  // Too long.
      {1, 3, 1, 0, 0, 0, 0, 0},     // A descriptor that is not there.
  }};
  for (const auto& header : headers) {
    ASSERT_EQ(write(raw, header.data(), header.size()), 8);
    EXPECT_EQ(two.receive(0).status().message(), "it has sent a malformed message");
  }
  EXPECT_FALSE(one.send(HandoverType::kSession, std::string(HandoverChannel::kMaxContentBytes + 1, 'x')).ok());
}

TEST_F(HandoverChannelTest, EndOfThePeer) {
  const std::array<uint8_t, 3> part{1, 3, 0};
  ASSERT_EQ(write(raw, part.data(), part.size()), 3);
  shutdown(raw, SHUT_RDWR);
  EXPECT_EQ(two.receive(0).status().message(), "it has ended");
  EXPECT_EQ(two.send(HandoverType::kReady).message(), "it has ended");
}

TEST(HandedValuesTest, SessionsAndSockets) {
  MovingSession session;
  session.kind = MovingSession::Kind::kHttp;
  session.listeners = {"web", "other"};
  session.endpoints = {{"app", "127.0.0.1:80"}, {"other", "127.0.0.1:81"}};
  session.state = {1, 2, 3};
  SecretBytes bytes;
  write_session(session, bytes);
  MovingSession read;
  ASSERT_TRUE(read_session(bytes, read));
  EXPECT_EQ(read.kind, session.kind);
  EXPECT_EQ(read.listeners, session.listeners);
  ASSERT_EQ(read.endpoints.size(), 2u);
  EXPECT_EQ(read.endpoints[1].upstream + " " + read.endpoints[1].address, "other 127.0.0.1:81");
  EXPECT_EQ(read.state, session.state);
  for (size_t size = 0; size < bytes.size(); ++size) {
    MovingSession none;
    EXPECT_FALSE(read_session(SecretBytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)), none));
  }
  SecretBytes other = bytes;
  ++other[1];  // The version.
  EXPECT_FALSE(read_session(other, read));
  bytes.push_back(0);
  EXPECT_FALSE(read_session(bytes, read));

  SecretBytes socket_bytes;
  HandedSocket{.listener = "web", .address = "[::1]:443", .both_families = true, .ordinal = 2}.write(socket_bytes);
  HandedSocket socket;
  ASSERT_TRUE(socket.read(socket_bytes));
  EXPECT_EQ(socket.listener + " " + socket.address, "web [::1]:443");
  socket_bytes.pop_back();
  EXPECT_FALSE(socket.read(socket_bytes));
}

// A peer must not take the close of a connection that got lost on its way for its end.
TEST(MovingSessionTest, LostSessionsAreReset) {
  std::array<int, 2> ends;
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  {
    MovingSession session;
    session.fds = {ends[0]};
    MovingSession moved(std::move(session));
    EXPECT_TRUE(session.fds.empty());
  }
  EXPECT_EQ(fcntl(ends[0], F_GETFD), -1);
  close(ends[1]);
}

}  // namespace
}  // namespace sluice
