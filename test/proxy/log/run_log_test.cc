#include "proxy/log/run_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "sluice/internal/check.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

/// A pipe in the place of standard error or output.
class Pipe {
 public:
  Pipe() {
    SLUICE_CHECK(pipe2(fds_, O_CLOEXEC) == 0);
    SLUICE_CHECK(fcntl(fds_[1], F_SETPIPE_SZ, 4096) > 0);
    SLUICE_CHECK(fcntl(fds_[0], F_SETFL, O_NONBLOCK) == 0);
  }
  ~Pipe() {
    close(fds_[0]);
    close(fds_[1]);
  }
  int end() const { return fds_[1]; }

  /// The data that has arrived so far.
  std::string& read() {
    char bytes[4096];
    for (ssize_t got; (got = ::read(fds_[0], bytes, sizeof bytes)) > 0;) text_.append(bytes, static_cast<size_t>(got));
    return text_;
  }
  /// Waits until `text` has arrived.
  bool reads(std::string_view text) {
    return reads_until([&](const std::string& all) { return all.find(text) != std::string::npos; });
  }
  /// Reads until the condition holds: a pipe of one page is full with one unread line.
  template <typename Condition>
  bool reads_until(Condition condition) {
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    while (!condition(read())) {
      if (Clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

 private:
  int fds_[2];
  std::string text_;
};

TEST(RunLog, WritesLinesWithTimeAndLevel) {
  Pipe out, err;
  RunLog log(out.end(), err.end());
  log.start();
  log.line(LogLevel::kInfo, "listener edge on 0.0.0.0:443");
  log.line(LogLevel::kError, "bad\nnews\x1b");
  log.print("sluice_x 1\n");
  EXPECT_TRUE(err.reads("x1B\n"));
  log.stop();
  EXPECT_THAT(err.read(),
              testing::MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z info sluice: listener edge on "
                                    "0\\.0\\.0\\.0:443\n[^ ]+ error sluice: bad\\\\x0Anews\\\\x1B\n"));
  EXPECT_EQ(out.read(), "sluice_x 1\n");
  EXPECT_EQ(log.lines_dropped() + log.prints_dropped(), 0u);
}

TEST(RunLog, CutsLongLines) {
  Pipe out, err;
  RunLog log(out.end(), err.end());
  log.line(LogLevel::kInfo, std::string(10'000, '\1'));  // At once: there is no thread.
  EXPECT_EQ(err.read().size(), RunLog::kMaxLineBytes);
  EXPECT_TRUE(err.read().ends_with("...\n"));
}

// Defect: serving threads wrote to standard error and output themselves, and waited for their readers.
TEST(RunLog, DoesNotWaitForTheReader) {
  Pipe out, err;
  RunLog log(out.end(), err.end());
  log.start();
  const auto begin = Clock::now();
  const std::string text(1000, 'x');
  for (int i = 0; i < 2000; ++i) {
    log.line(LogLevel::kWarning, text);
    log.print(text + "\n");
  }
  EXPECT_GT(log.lines_dropped(), 1000u);
  EXPECT_GT(log.prints_dropped(), 1000u);
  log.stop();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  EXPECT_LE(log.lines_dropped(), 2001u);  // And the line that reports the others.
}

TEST(RunLog, ReportsDroppedLinesWhenTheReaderResumes) {
  Pipe out, err;
  RunLog log(out.end(), err.end());
  log.start();
  for (int i = 0; i < 1000; ++i) log.line(LogLevel::kInfo, std::string(1000, 'x'));
  const uint64_t dropped = log.lines_dropped();
  EXPECT_GT(dropped, 0u);
  EXPECT_TRUE(err.reads("in total: " + std::to_string(dropped) + "\n"));
  // Each line is there or counted; other lines say how many are missing.
  const auto expected_lines = [&](const std::string& all) {
    size_t warnings = 0;
    for (size_t at = 0; (at = all.find("accepts lines more slowly", at)) != std::string::npos; ++at) ++warnings;
    return warnings == 0 ? 0 : 1000 - dropped + warnings;
  };
  const auto lines = [](const std::string& all) {
    return static_cast<uint64_t>(std::count(all.begin(), all.end(), '\n'));
  };
  EXPECT_TRUE(err.reads_until([&](const std::string& all) { return lines(all) == expected_lines(all); }));
  log.stop();
  EXPECT_EQ(lines(err.read()), expected_lines(err.read()));
  EXPECT_EQ(log.lines_dropped(), dropped);
}

TEST(RunLog, ContinuesWithoutAReader) {
  Pipe out;
  auto err = std::make_unique<Pipe>();
  const int own = dup(err->end());
  RunLog log(out.end(), own);
  signal(SIGPIPE, SIG_IGN);
  log.start();
  err.reset();
  for (int i = 0; i < 100; ++i) log.line(LogLevel::kInfo, "nobody reads this");
  log.print("x\n");
  log.stop();
  EXPECT_EQ(log.lines_dropped(), 100u);
  EXPECT_EQ(out.read(), "x\n");
  close(own);
}

TEST(RunLog, CountsSuppressedLines) {
  LogLimit limit;
  const uint64_t before = log_lines_suppressed();
  for (uint32_t i = 0; i < LogLimit::kPerSecond + 3; ++i) static_cast<void>(log_admits(limit, 5000));
  EXPECT_EQ(log_lines_suppressed(), before + 3);
}

}  // namespace
}  // namespace sluice
