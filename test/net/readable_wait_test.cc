// A wait for input that leaves it in the kernel.
#include "net/readable_wait.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string_view>

#include "test/net/loop.h"

namespace sluice {
namespace {

class Waiter final : public ReadableWait::Owner {
 public:
  void on_readable(bool is_end) override { ended = is_end; }
  std::optional<bool> ended;  // Of the last wait; not set: it is not over.
};

class ReadableWaitTest : public testing::Test {
 protected:
  ~ReadableWaitTest() override {
    ::close(pair_.ours);
    ::close(pair_.theirs);
  }
  void send(std::string_view text) {
    ASSERT_EQ(::send(pair_.theirs, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  // What can be received, which stays.
  ssize_t waiting_bytes() const {
    char bytes[100];
    return recv(pair_.ours, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
  }
  void until_over() {
    loop_.until([&] { return waiter_.ended.has_value(); });
  }

  test::Loop loop_;
  const test::Pair pair_ = test::tcp_pair();
  Waiter waiter_;
  ReadableWait wait_{loop_.ring(), waiter_};
};

TEST_F(ReadableWaitTest, InputStays) {
  wait_.begin(pair_.ours);
  loop_.settle(2);
  EXPECT_TRUE(wait_.waiting());
  EXPECT_FALSE(waiter_.ended.has_value());
  send("abc");
  until_over();
  EXPECT_EQ(waiter_.ended, false);
  EXPECT_FALSE(wait_.waiting());
  EXPECT_EQ(waiting_bytes(), 3);
}

// So a peer that sends byte by byte costs one turn, not many.
TEST_F(ReadableWaitTest, WaitsForTheLowWaterMark) {
  const int bytes = 5;
  setsockopt(pair_.ours, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
  wait_.begin(pair_.ours);
  for (int i = 0; i < 4; ++i) {
    send("a");
    loop_.settle(2);
    EXPECT_FALSE(waiter_.ended.has_value());
  }
  send("a");
  until_over();
  EXPECT_EQ(waiting_bytes(), 5);
}

TEST_F(ReadableWaitTest, AnEndIsToldWhateverWaits) {
  wait_.begin(pair_.ours);
  send("abc");
  shutdown(pair_.theirs, SHUT_WR);
  loop_.until([&] { return !wait_.waiting(); });
  waiter_.ended.reset();
  wait_.begin(pair_.ours);
  until_over();
  EXPECT_EQ(waiter_.ended, true);
}

TEST_F(ReadableWaitTest, Cancel) {
  wait_.begin(pair_.ours);
  loop_.settle(2);
  wait_.cancel();
  until_over();
  EXPECT_EQ(waiter_.ended, true);
  EXPECT_FALSE(wait_.waiting());
}

TEST_F(ReadableWaitTest, AnErrorIsAnEnd) {
  loop_.ring().inject(Op::kInput, -EIO);
  wait_.begin(pair_.ours);
  until_over();
  EXPECT_EQ(waiter_.ended, true);
}

}  // namespace
}  // namespace sluice
