#include "net/yielding_task.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "test/net/loop.h"

namespace sluice {
namespace {

struct Piece {
  Piece(YieldingQueue& of, std::string& to, char letter)
      : queue(of), log(to), name(letter), work([](void* self) { static_cast<Piece*>(self)->run(); }, this) {}
  void run() {
    log += name;
    if (again-- > 0) queue.push(work);
    if (victim) victim->reset();
  }
  YieldingQueue& queue;
  std::string& log;
  char name;
  int again = 0;
  std::optional<Piece>* victim = nullptr;
  YieldingTask work;
};

TEST(YieldingQueue, RunsInOrder) {
  YieldingQueue queue;
  std::string log;
  Piece a(queue, log, 'a'), b(queue, log, 'b');
  a.again = 1;
  queue.push(a.work);
  queue.push(b.work);
  queue.push(a.work);  // It is queued already.
  while (!queue.empty()) queue.run_one();
  EXPECT_EQ(log, "aba");
}

TEST(YieldingQueue, DestroyedTasksAreNotRun) {
  YieldingQueue queue;
  std::string log;
  std::optional<Piece> a(std::in_place, queue, log, 'a'), b(std::in_place, queue, log, 'b');
  Piece c(queue, log, 'c');
  for (Piece* piece : {&*a, &*b, &c}) queue.push(piece->work);
  a->victim = &b;
  c.victim = &a;
  while (!queue.empty()) queue.run_one();
  EXPECT_EQ(log, "ac");
}

TEST(YieldingQueue, MayDestroyItself) {
  YieldingQueue queue;
  std::string log;
  std::optional<Piece> a(std::in_place, queue, log, 'a');
  a->victim = &a;
  queue.push(a->work);
  queue.run_one();
  EXPECT_TRUE(queue.empty());
}

// The loop does one task in a turn, and does not wait for anything else while there are more.
TEST(YieldingQueue, WorkerDoesOneTaskPerTurn) {
  test::Loop loop(test::Loop::with_features());
  std::string log;
  Piece a(loop.worker().yielding_tasks(), log, 'a');
  a.again = 2;
  loop.worker().yielding_tasks().push(a.work);
  for (size_t turn = 1; turn <= 3; ++turn) {
    loop.worker().turn(60'000);
    EXPECT_EQ(log.size(), turn);
  }
  EXPECT_TRUE(loop.worker().yielding_tasks().empty());
}

}  // namespace
}  // namespace sluice
