// How new connections are spread over the workers of a listener.
#include "proxy/listener/connection_balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "test/net/loop.h"

namespace sluice {
namespace {

using Accepted = ConnectionBalance::Accepted;

// A worker that has one member, which counts what is handed over to it.
class TestWorker final : public ConnectionBalance::Member::Owner {
 public:
  TestWorker(ConnectionBalance& balance, unsigned index)
      : loop_(options_of(index)), member_(std::make_unique<ConnectionBalance::Member>(balance, loop_.worker(), *this)) {
    member_->join();
  }
  ~TestWorker() {
    member_->leave();
    loop_.until([this] { return member_->idle(); });
  }
  ConnectionBalance::Member& member() { return *member_; }
  test::Loop& loop() { return loop_; }
  const std::vector<int>& taken() const { return taken_; }
  // Accepts a connection. Whether it stays here.
  bool accept(int fd) {
    if (member_->hand_over({fd, AF_INET})) return false;
    member_->opened();
    return true;
  }

 private:
  static Worker::Options options_of(unsigned index) {
    Worker::Options options = test::Loop::with_features();
    options.index = index;
    return options;
  }
  void on_handed_over(Accepted connection) override {
    EXPECT_EQ(connection.family, AF_INET);
    taken_.push_back(connection.fd);
    member_->opened();
  }

  test::Loop loop_;
  std::vector<int> taken_;
  std::unique_ptr<ConnectionBalance::Member> member_;
};

TEST(ConnectionBalanceTest, OneWorkerKeepsAll) {
  ConnectionBalance balance(1);
  TestWorker only(balance, 0);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(only.accept(i));
}

// All arrive at one worker, as from one source port range that hashes badly.
TEST(ConnectionBalanceTest, SpreadsWhatOneWorkerAccepts) {
  ConnectionBalance balance(4);
  TestWorker workers[] = {{balance, 0}, {balance, 1}, {balance, 2}, {balance, 3}};
  size_t kept = 0;
  for (int i = 0; i < 200; ++i) kept += workers[0].accept(i);
  for (size_t w = 1; w < 4; ++w) {
    workers[w].loop().until([&] { return workers[w].taken().size() >= 45; });
    workers[w].loop().settle();
  }
  EXPECT_GE(kept, 50u);
  EXPECT_LE(kept, 57u);
  for (size_t w = 1; w < 4; ++w) {
    EXPECT_GE(workers[w].taken().size(), 46u);
    EXPECT_LE(workers[w].taken().size(), 50u);
    EXPECT_TRUE(std::is_sorted(workers[w].taken().begin(), workers[w].taken().end()));
  }
  EXPECT_EQ(kept + workers[1].taken().size() + workers[2].taken().size() + workers[3].taken().size(), 200u);
}

// A small difference is not worth a message to another worker.
TEST(ConnectionBalanceTest, KeepsConnectionsWithinTheMargin) {
  ConnectionBalance balance(2);
  TestWorker one(balance, 0), two(balance, 1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(one.accept(i));
  EXPECT_FALSE(one.accept(3));
  // Those that wait at the other worker count as its own.
  EXPECT_TRUE(one.accept(4));
  one.member().closed();
  EXPECT_TRUE(one.accept(5));
  two.loop().until([&] { return two.taken().size() == 1; });
}

TEST(ConnectionBalanceTest, ConnectionsThatWaitAreTakenOnLeaving) {
  ConnectionBalance balance(2);
  TestWorker one(balance, 0), two(balance, 1);
  for (int i = 0; i < 4; ++i) one.accept(i);
  EXPECT_TRUE(two.taken().empty());
  two.member().leave();
  EXPECT_EQ(two.taken(), std::vector<int>{3});
  EXPECT_FALSE(two.member().idle()) << "the message is still on its way";
  two.loop().until([&] { return two.member().idle(); });
  EXPECT_EQ(two.taken().size(), 1u);
}

TEST(ConnectionBalanceTest, AWorkerThatHasLeftGetsNone) {
  ConnectionBalance balance(2);
  TestWorker one(balance, 0), two(balance, 1);
  two.member().leave();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(one.accept(i));
  two.member().join();
  EXPECT_FALSE(one.accept(100));
  two.loop().until([&] { return two.taken().size() == 1; });
}

}  // namespace
}  // namespace sluice
