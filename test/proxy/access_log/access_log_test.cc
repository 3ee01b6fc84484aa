// Access logs whose files can be written.

#include "proxy/access_log/access_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "test/proxy/http/h2/allocations.h"
#include "test/proxy/log/log_rig.h"

namespace sluice {
namespace {

using testing::HasSubstr;

class AccessLogTest : public test::LogTest {
 protected:
  // The descriptors of this process that are open on a log.
  std::vector<int> descriptors_of(const std::string& name) const {
    std::vector<int> out;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(entry.path(), gone) == path(name)) {
        out.push_back(std::stoi(entry.path().filename()));
      }
    }
    return out;
  }
};

TEST_F(AccessLogTest, NoTargets) {
  auto logs = open({});
  EXPECT_TRUE(logs->reopen().ok());
  logs->close();
}

TEST_F(AccessLogTest, LinesAreWrittenAfterEachPause) {
  auto logs = open({path("log")});
  std::mt19937_64 random(1);
  std::string expected;
  for (uint64_t i = 0; i < 12; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 160'000));
    expected += line_of(0, i, 50);
    ASSERT_TRUE(put(logs->writer(0, 0), line_of(0, i, 50)));
    if (i % 3 == 0) {
      ASSERT_TRUE(comes_true([&] { return contents(path("log")) == expected; })) << i;
    }
  }
  EXPECT_TRUE(comes_true([&] { return contents(path("log")) == expected; }));
  EXPECT_EQ(logs->written(0), 12u);
  EXPECT_EQ(logs->dropped(0), 0u);
}

// Defect: lines that arrive just after the thread has looked for the last time. It has many rings to look into, which
// takes a while.
TEST_F(AccessLogTest, NoLineIsLeftWhenTheThreadSleeps) {
  std::atomic<int> left{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      auto logs = open({path(std::to_string(t))}, 2000);
      for (uint64_t i = 1; i <= 25 && left == 0; ++i) {
        put(logs->writer(0, 0), "x\n");
        if (!comes_true([&] { return logs->written(0) == i; }, test::seconds(3))) ++left;
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 2 * 50'000 + 46'000 + random() % 6'000));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(left, 0);
}

TEST_F(AccessLogTest, MuchIsWrittenAtOnce) {
  const std::string line = line_of(0, 0, 8000);
  auto best = test::milliseconds::max();
  for (int round = 0; round < 20 && best > test::milliseconds(30); ++round) {  // The machine may be busy.
    auto logs = open({path("log")});
    std::this_thread::sleep_for(test::milliseconds(120));
    const auto start = std::chrono::steady_clock::now();
    put(logs->writer(0, 0), "the thread wakes up, and gathers\n");
    std::this_thread::sleep_for(test::milliseconds(1));
    for (int i = 0; i < 40; ++i) put(logs->writer(0, 0), line);
    ASSERT_TRUE(comes_true([&] { return logs->written(0) > 10; }));
    best = std::min(best, std::chrono::ceil<test::milliseconds>(std::chrono::steady_clock::now() - start));
  }
  EXPECT_LE(best, test::milliseconds(30));
}

TEST_F(AccessLogTest, EachWorkersLinesAreInOrder) {
  constexpr size_t kWorkers = 4;
  constexpr uint64_t kLines = kDebugChecks ? 20'000 : 100'000;
  auto logs = open({path("log")}, kWorkers);
  std::vector<std::thread> threads;
  std::atomic<uint64_t> refused{0};
  for (size_t w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      std::mt19937_64 random(w);
      for (uint64_t i = 0; i < kLines; ++i) {
        const std::string line = line_of(w, i, random() % 1000 == 0 ? kMaxLogLineBytes : 20 + random() % 400);
        while (!put(logs->writer(0, w), line)) {
          ++refused;
          std::this_thread::sleep_for(test::milliseconds(1));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  logs->close();
  const auto found = numbers(contents(path("log")), kWorkers);
  for (size_t w = 0; w < kWorkers; ++w) EXPECT_TRUE(found[w] == up_to(kLines)) << w;
  EXPECT_EQ(logs->written(0), kWorkers * kLines);
  EXPECT_EQ(logs->dropped(0), refused);
  EXPECT_EQ(logs->errors(0), 0u);
}

TEST_F(AccessLogTest, AllLinesAreWrittenAtExit) {
  {
    auto logs = open({path("a"), path("b")}, 2);
    for (uint64_t i = 0; i < 500; ++i) {
      for (size_t target = 0; target < 2; ++target) {
        for (size_t w = 0; w < 2; ++w) ASSERT_TRUE(put(logs->writer(target, w), line_of(w, i, 300)));
      }
    }
  }
  for (const char* name : {"a", "b"}) {
    for (const auto& of_worker : numbers(contents(path(name)), 2)) EXPECT_EQ(of_worker, up_to(500));
  }
}

TEST_F(AccessLogTest, DuplicateTargetsAreOne) {
  auto logs = open({path("a"), path("b"), path("a")}, 2);
  EXPECT_NE(&logs->writer(0, 1), &logs->writer(0, 0));
  EXPECT_NE(&logs->writer(0, 1), &logs->writer(1, 1));
  EXPECT_EQ(descriptors_of("a").size(), 1u);
  // Nor is a target that is open already opened again.
  EXPECT_EQ(logs->add({path("b"), path("c"), path("a"), path("c")}).value(), (std::vector<size_t>{1, 2, 0, 2}));
  EXPECT_EQ(descriptors_of("a").size(), 1u);
  ASSERT_TRUE(put(logs->writer(0, 0), "x\n"));
  ASSERT_TRUE(put(logs->writer(2, 0), "y\n"));
  logs->close();
  EXPECT_EQ(logs->written(0), 1u);
  EXPECT_EQ(logs->written(2), 1u);
  EXPECT_EQ(logs->written(1), 0u);
}

TEST_F(AccessLogTest, LogsThatAreNotKeptAreClosed) {
  auto logs = open({path("a"), path("b"), path("c")}, 2);
  for (size_t w = 0; w < 2; ++w) ASSERT_TRUE(put(logs->writer(1, w), line_of(w, 0, 300)));
  logs->keep_only({0, 2});
  EXPECT_TRUE(comes_true([&] { return descriptors_of("b").empty(); }));
  for (const auto& of_worker : numbers(contents(path("b")), 2))
    EXPECT_EQ(of_worker, up_to(1)) << "queued lines are lost";
  std::filesystem::remove(path("b"));
  EXPECT_TRUE(logs->reopen().ok());
  EXPECT_FALSE(std::filesystem::exists(path("b")));
  // Others keep their indices. The place that is free is the next one's, and then new ones come behind.
  EXPECT_EQ(logs->add({path("c"), path("d"), path("e"), path("d"), path("a")}).value(),
            (std::vector<size_t>{2, 1, 3, 1, 0}));
  for (size_t target = 0; target < 4; ++target) ASSERT_TRUE(put(logs->writer(target, 0), "x\n"));
  logs->close();
  for (const char* name : {"a", "c", "d", "e"}) EXPECT_EQ(contents(path(name)), "x\n") << name;
  EXPECT_EQ(logs->written(1), 1u);
}

// A pipe whose reader reads nothing cannot take what is queued: the log is closed all the same, and says how much is
// lost.
TEST_F(AccessLogTest, BlockedLogIsClosedToo) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  const int reader = ::open(path("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  auto logs = open({path("fifo"), path("other")});
  while (put(logs->writer(0, 0), line_of(0, 0, 4000))) {
  }
  const auto writers = [&] { return descriptors_of("fifo").size(); };
  EXPECT_EQ(writers(), 2u);  // With ours.
  logs->keep_only({1});
  EXPECT_TRUE(comes_true([&] { return writers() == 1; }));
  ASSERT_TRUE(put(logs->writer(1, 0), "x\n"));
  EXPECT_TRUE(comes_true([&] { return contents(path("other")) == "x\n"; }));
  ::close(reader);
}

TEST_F(AccessLogTest, FilesAreAppendedTo) {
  const mode_t mask = umask(0022);
  std::ofstream(path("old")) << "before\n";
  auto logs = open({path("old"), path("new")});
  umask(mask);
  for (size_t target = 0; target < 2; ++target) ASSERT_TRUE(put(logs->writer(target, 0), "x\n"));
  // Another process appends to the file.
  ASSERT_TRUE(comes_true([&] { return contents(path("old")) == "before\nx\n"; }));
  std::ofstream(path("old"), std::ios::app) << "other\n";
  ASSERT_TRUE(put(logs->writer(0, 0), "y\n"));
  logs->close();
  EXPECT_EQ(contents(path("old")), "before\nx\nother\ny\n");
  EXPECT_EQ(contents(path("new")), "x\n");
  struct stat status;
  ASSERT_EQ(stat(path("new").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST_F(AccessLogTest, DescriptorsAreNotInherited) {
  auto logs = open({path("log")});
  const std::vector<int> all = descriptors_of("log");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NE(fcntl(all[0], F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(AccessLogTest, OpenErrorsExplainWhatToDo) {
  const auto error_of = [](const std::string& target) {
    const auto logs = AccessLogs::open({target}, 1);
    return logs.ok() ? std::string("none") : std::string(logs.status().message());
  };
  EXPECT_THAT(error_of(path("no/log")), testing::AllOf(HasSubstr('"' + path("no/log") + '"'), HasSubstr("No such file"),
                                                       HasSubstr("make the directory")));
  EXPECT_THAT(error_of(path("")), HasSubstr("name of a file in it"));
  EXPECT_THAT(error_of(""), HasSubstr("give a path, `stdout` or `stderr`"));
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(error_of(path("fifo")), HasSubstr("nobody reads from it yet"));
  if (geteuid() != 0) {
    std::ofstream(path("mine")) << "";
    ASSERT_EQ(chmod(path("mine").c_str(), 0400), 0);
    EXPECT_THAT(error_of(path("mine")), HasSubstr("needs write permission"));
  }
}

// Reopens the log like logrotate, while two workers write to it.
TEST_F(AccessLogTest, ReopenLosesNothing) {
  constexpr size_t kWorkers = 2;
  constexpr int kRotations = 30;
  auto logs = open({path("log")}, kWorkers);
  std::atomic<bool> stop{false};
  std::vector<uint64_t> sent(kWorkers);
  std::vector<std::thread> threads;
  for (size_t w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      std::mt19937_64 random(w);
      while (!stop) {
        const std::string line = line_of(w, sent[w], random() % 100 == 0 ? 5000 : 20 + random() % 400);
        if (put(logs->writer(0, w), line)) {
          ++sent[w];
        } else {
          std::this_thread::sleep_for(test::milliseconds(1));
        }
      }
    });
  }
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto descriptors_before = descriptors();
  for (int i = 0; i < kRotations; ++i) {
    std::this_thread::sleep_for(test::milliseconds(20));
    std::filesystem::rename(path("log"), path("log." + std::to_string(i)));
    EXPECT_TRUE(logs->reopen().ok());
    ASSERT_TRUE(std::filesystem::exists(path("log")));
    if (i % 4 == 3) {  // Twice at once, and without a new file.
      EXPECT_TRUE(logs->reopen().ok());
    }
    if (i % 5 == 4) {  // Soon all lines go to the new file.
      ASSERT_TRUE(comes_true([&] { return std::filesystem::file_size(path("log")) > 0; }));
      const auto size = std::filesystem::file_size(path("log." + std::to_string(i)));
      std::this_thread::sleep_for(test::milliseconds(20));
      EXPECT_EQ(std::filesystem::file_size(path("log." + std::to_string(i))), size);
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(comes_true([&] { return descriptors() == descriptors_before; }));
  logs->close();

  std::vector<std::vector<uint64_t>> all(kWorkers);
  int used = 0;
  for (int i = 0; i <= kRotations; ++i) {
    const std::string text = contents(path(i < kRotations ? "log." + std::to_string(i) : "log"));
    used += !text.empty();
    const auto some = numbers(text, kWorkers);  // Complete lines in each file.
    for (size_t w = 0; w < kWorkers; ++w) all[w].insert(all[w].end(), some[w].begin(), some[w].end());
  }
  for (size_t w = 0; w < kWorkers; ++w) EXPECT_TRUE(all[w] == up_to(sent[w])) << w;
  EXPECT_GT(used, kRotations / 2);
}

TEST_F(AccessLogTest, FailedReopenKeepsTheOldFile) {
  auto logs = open({path("a"), path("b")});
  std::filesystem::rename(path("a"), path("a.1"));
  std::filesystem::rename(path("b"), path("b.1"));
  std::filesystem::create_directory(path("a"));
  const absl::Status status = logs->reopen();
  EXPECT_THAT(std::string(status.message()), HasSubstr('"' + path("a") + '"'));
  for (size_t target = 0; target < 2; ++target) ASSERT_TRUE(put(logs->writer(target, 0), "x\n"));
  logs->close();
  EXPECT_EQ(contents(path("a.1")), "x\n");
  EXPECT_EQ(contents(path("b.1")), "");
  EXPECT_EQ(contents(path("b")), "x\n");
}

uint64_t system_writes() {
  std::ifstream io("/proc/self/io");
  for (std::string name; io >> name;) {
    uint64_t value = 0;
    io >> value;
    if (name == "syscw:") return value;
  }
  return 0;
}

TEST_F(AccessLogTest, ManyLinesAreFewSystemCalls) {
  if (system_writes() == 0) GTEST_SKIP() << "/proc/self/io cannot be read";
  auto logs = open({path("log")});
  const std::string line = line_of(0, 0, 250);
  const uint64_t before = system_writes();
  uint64_t sent = 0;
  for (int burst = 0; burst < 20; ++burst) {
    for (int i = 0; i < 1000; ++i) sent += put(logs->writer(0, 0), line);
    ASSERT_TRUE(comes_true([&] { return logs->written(0) == sent; }));
  }
  const uint64_t calls = system_writes() - before;
  EXPECT_GT(calls, 0u);
  EXPECT_LE(calls, 200u) << "for " << sent << " lines";  // To wake the thread, and to write.
}

TEST_F(AccessLogTest, LinesAreWrittenTogether) {
  if (system_writes() == 0) GTEST_SKIP() << "/proc/self/io cannot be read";
  auto logs = open({path("log")});
  const uint64_t before = system_writes();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(put(logs->writer(0, 0), line_of(0, 0, 250)));
    std::this_thread::sleep_for(test::milliseconds(1));
  }
  ASSERT_TRUE(comes_true([&] { return logs->written(0) == 400; }));
  const auto looks = (std::chrono::steady_clock::now() - start) / test::milliseconds(50);
  EXPECT_LE(system_writes() - before, static_cast<uint64_t>(2 * looks + 10));
}

// The threads of this process.
std::set<std::string> threads() {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) out.insert(entry.path());
  return out;
}
// How often a thread has gone to sleep.
uint64_t sleeps_of(const std::string& thread) {
  std::ifstream status(thread + "/status");
  for (std::string word; status >> word;) {
    uint64_t value = 0;
    if (word == "voluntary_ctxt_switches:" && status >> value) return value;
  }
  return 0;
}

TEST_F(AccessLogTest, WithoutLinesTheThreadSleeps) {
  std::thread([] {}).join();  // ThreadSanitizer starts a thread of its own with the first one.
  const std::set<std::string> others = threads();
  auto logs = open({path("log")});
  std::vector<std::string> own;
  for (const std::string& thread : threads()) {
    if (!others.contains(thread)) own.push_back(thread);
  }
  ASSERT_EQ(own.size(), 1u);
  ASSERT_TRUE(put(logs->writer(0, 0), "x\n"));
  ASSERT_TRUE(comes_true([&] { return logs->written(0) == 1; }));
  // It has checked twice for more lines, and sleeps.
  uint64_t before = 0;
  ASSERT_TRUE(comes_true([&] {
    const uint64_t last = std::exchange(before, sleeps_of(own[0]));
    std::this_thread::sleep_for(test::milliseconds(150));
    return last == before;
  }));
  EXPECT_GE(before, 3u);
  std::this_thread::sleep_for(test::milliseconds(500));
  EXPECT_EQ(sleeps_of(own[0]), before);
}

TEST_F(AccessLogTest, NoAllocationPerLine) {
  auto logs = open({path("log")}, 64);
  const std::string line = line_of(0, 0, 250);
  // Its thread allocates what it needs when it starts.
  ASSERT_TRUE(put(logs->writer(0, 1), line));
  ASSERT_TRUE(comes_true([&] { return logs->written(0) == 1; }));
  const uint64_t unused = test::allocations;
  ASSERT_TRUE(put(logs->writer(0, 0), line));
  EXPECT_EQ(test::allocations, unused);  // Not even for the first line: the queue's memory is mapped.
  ASSERT_TRUE(comes_true([&] { return logs->written(0) == 2; }));
  constexpr uint64_t kBurst = 500;
  double best = 1e9;
  uint64_t sent = logs->written(0) + logs->dropped(0);
  for (int round = 0; round < 20; ++round) {
    sent += kBurst;
    const uint64_t before = test::allocations;
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t i = 0; i < kBurst; ++i) put(logs->writer(0, 0), line);
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / kBurst);
    ASSERT_TRUE(comes_true([&] { return logs->written(0) + logs->dropped(0) >= sent; }));
    EXPECT_EQ(test::allocations - before, 0u);
  }
  EXPECT_EQ(logs->dropped(0), 0u);
  std::printf("leaving a line of %zu bytes: %.0f ns\n", line.size(), best);
}

}  // namespace
}  // namespace sluice
