// Work on helper threads: where it runs, where it finishes, and what happens to it when the worker ends first.

#include "net/helper_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "test/net/loop.h"

namespace sluice {
namespace {

struct Seen {
  std::atomic<int> begun{0}, ran{0}, destroyed{0};
  int finished = 0;  // On the worker.
  std::thread::id ran_on, finished_on;
};

class Job final : public HelperThreads::Job {
 public:
  explicit Job(Seen& seen, std::chrono::milliseconds time = {}) : seen_(seen), time_(time) {}
  ~Job() override { ++seen_.destroyed; }

  void run() override {
    ++seen_.begun;
    std::this_thread::sleep_for(time_);
    seen_.ran_on = std::this_thread::get_id();
    ++seen_.ran;
  }
  void finish(Worker&, std::unique_ptr<HelperThreads::Job> /*self*/) override {
    seen_.finished_on = std::this_thread::get_id();
    ++seen_.finished;
  }

 private:
  Seen& seen_;
  const std::chrono::milliseconds time_;
};

class HelperThreadsTest : public testing::Test {
 protected:
  void give(std::chrono::milliseconds time = {}) { threads_.give(std::make_unique<Job>(seen_, time)); }

  Seen seen_;
  test::Loop loop_;
  HelperThreads threads_{1};
};

TEST_F(HelperThreadsTest, JobsFinishOnTheWorker) {
  threads_.start();
  const HelperThreads::Desk desk(loop_.worker());
  for (int i = 0; i < 100; ++i) give();
  loop_.until([&] { return seen_.finished == 100; });
  EXPECT_EQ(seen_.destroyed, 100);
  EXPECT_EQ(seen_.finished_on, std::this_thread::get_id());
  EXPECT_NE(seen_.ran_on, std::this_thread::get_id());
}

// Defect: a job that was in progress when its worker ended was destroyed by the helper later, with what it held of the
// worker's memory, which no longer existed.
TEST_F(HelperThreadsTest, NoJobIsLeftWhenTheWorkerEnds) {
  std::optional<HelperThreads::Desk> desk(std::in_place, loop_.worker());
  threads_.start();
  give(std::chrono::milliseconds(30));
  give();
  while (seen_.begun == 0) std::this_thread::yield();
  desk.reset();
  EXPECT_EQ(seen_.ran, 1) << "what runs is waited for, what waits does not run";
  EXPECT_EQ(seen_.destroyed, 2);
  EXPECT_EQ(seen_.finished, 0);
}

}  // namespace
}  // namespace sluice
