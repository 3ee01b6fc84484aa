#include "proxy/log/run_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

size_t count(const std::string& text, std::string_view what) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
  return found;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Condition>
bool becomes(const std::string& path, Condition condition) {
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while (!condition(contents(path))) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

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
  EXPECT_LE(err.read().size(), RunLog::kMaxLineBytes);
  EXPECT_GT(err.read().size(), RunLog::kMaxLineBytes - 8);
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
  // Each line is there or counted; other lines have the number of missing ones.
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

TEST(RunLog, LogsFromItsLevelOn) {
  Pipe out, err;
  RunLog log(out.end(), err.end());
  log.start();
  log.line(LogLevel::kDebug, "one");
  log.configure(LogLevel::kWarning, LogStyle::kText, nullptr);
  EXPECT_FALSE(log.enabled(LogLevel::kInfo));
  log.line(LogLevel::kInfo, "two");
  log.line(LogLevel::kWarning, "three");
  EXPECT_TRUE(err.reads("three"));  // One unread line fills the pipe.
  log.configure(LogLevel::kDebug, LogStyle::kJson, nullptr);
  log.line(LogLevel::kDebug, "four");
  log.stop();
  EXPECT_THAT(err.read(), testing::MatchesRegex("[^\n]* warning sluice: three\n\\{[^\n]*\"message\":\"four\"\\}\n"));
  EXPECT_EQ(log.lines(LogLevel::kDebug), 1u);
  EXPECT_EQ(log.lines(LogLevel::kInfo), 0u);
  EXPECT_EQ(log.lines(LogLevel::kWarning), 1u);
}

TEST(RunLog, ChangesItsFileBetweenLines) {
  Pipe out, err;
  const std::string path = testing::TempDir() + "sluice_run_log_" + std::to_string(getpid());
  RunLog log(out.end(), err.end());
  log.start();
  for (int i = 0; i < 3; ++i) log.line(LogLevel::kInfo, "before");
  EXPECT_TRUE(err.reads_until([](const std::string& all) { return count(all, "before\n") == 3; }));
  auto sink = LogSink::open({LogDestination::Kind::kFile, path});
  ASSERT_TRUE(sink.ok()) << sink.status();
  log.configure(LogLevel::kInfo, LogStyle::kText, std::move(*sink));
  for (int i = 0; i < 3; ++i) log.line(LogLevel::kInfo, "after");
  EXPECT_TRUE(becomes(path, [](const std::string& text) { return std::count(text.begin(), text.end(), '\n') == 3; }));
  std::filesystem::rename(path, path + ".1");
  ASSERT_TRUE(log.reopen().ok());
  log.line(LogLevel::kInfo, "renamed");
  log.stop();
  log.line(LogLevel::kInfo, "stopped");
  EXPECT_EQ(count(err.read(), "before"), 3u);
  EXPECT_EQ(count(err.read(), "\n"), 3u);
  EXPECT_EQ(count(contents(path + ".1"), "after\n"), 3u);
  EXPECT_EQ(count(contents(path + ".1"), "\n"), 3u);
  EXPECT_THAT(contents(path), testing::MatchesRegex("[^\n]* renamed\n[^\n]* stopped\n"));
  EXPECT_EQ(log.lines_dropped(), 0u);
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".1");
}

// Lines that arrive without end do not keep the counters from standard output.
TEST(RunLog, PrintsWhileLinesArrive) {
  Pipe out, err;
  auto sink = LogSink::open({LogDestination::Kind::kFile, "/dev/null"});
  ASSERT_TRUE(sink.ok()) << sink.status();
  RunLog log(out.end(), err.end());
  log.start();
  log.configure(LogLevel::kInfo, LogStyle::kText, std::move(*sink));
  std::atomic<bool> ending{false};
  std::vector<std::thread> writers;
  for (int i = 0; i < 3; ++i) {
    writers.emplace_back([&] {
      while (!ending.load()) log.line(LogLevel::kInfo, "x");
    });
  }
  for (int i = 0; i < 10; ++i) {
    log.print("print " + std::to_string(i) + "\n");
    EXPECT_TRUE(out.reads("print " + std::to_string(i)));
  }
  ending = true;
  for (std::thread& writer : writers) writer.join();
  log.stop();
}

// Lines that a blocked destination did not take go to the next one.
TEST(RunLog, LeavesABlockedPipe) {
  Pipe out, err;
  const std::string path = testing::TempDir() + "sluice_run_log_" + std::to_string(getpid());
  RunLog log(out.end(), err.end());
  log.start();
  for (int i = 0; i < 100; ++i) log.line(LogLevel::kInfo, std::string(1000, 'x'));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // The pipe is full.
  auto sink = LogSink::open({LogDestination::Kind::kFile, path});
  ASSERT_TRUE(sink.ok()) << sink.status();
  log.configure(LogLevel::kInfo, LogStyle::kText, std::move(*sink));
  log.line(LogLevel::kInfo, "the last");
  EXPECT_TRUE(becomes(path, [](const std::string& text) { return text.find("the last\n") != std::string::npos; }));
  log.stop();
  const size_t whole = count(err.read(), "x\n");
  EXPECT_GT(whole, 0u);
  EXPECT_EQ(whole + count(contents(path), "\n"), 101u);
  EXPECT_EQ(log.lines_dropped(), 0u);
  std::filesystem::remove(path);
}

TEST(RunLog, CountsLinesOfAFullDisk) {
  Pipe out, err;
  auto sink = LogSink::open({LogDestination::Kind::kFile, "/dev/full"});
  ASSERT_TRUE(sink.ok()) << sink.status();
  RunLog log(out.end(), err.end());
  log.start();
  log.configure(LogLevel::kInfo, LogStyle::kText, std::move(*sink));
  for (int i = 0; i < 5; ++i) log.line(LogLevel::kInfo, "lost");
  // Standard error says it, once.
  EXPECT_TRUE(
      err.reads("error sluice: log: /dev/full cannot be written to: No space left on device; its lines are "
                "dropped until that works again\n"));
  log.stop();
  EXPECT_EQ(count(err.read(), "\n"), 1u);
  EXPECT_EQ(log.lines_dropped(), 5u);
  EXPECT_EQ(log.write_errors(), 5u);
}

TEST(RunLog, RefusesAFileThatCannotBeOpened) {
  const auto sink = LogSink::open({LogDestination::Kind::kFile, "/nowhere/log"});
  EXPECT_THAT(sink.status().message(), testing::StartsWith("log \"/nowhere/log\": cannot be opened; make the directory "
                                                           "first"));
}

// The service manager connects standard error to the journal, and names the stream in the environment.
TEST(RunLog, WritesPrioritiesForTheJournal) {
  Pipe out, err;
  struct stat status;
  ASSERT_EQ(fstat(err.end(), &status), 0);
  setenv("JOURNAL_STREAM", (std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino)).c_str(), 1);
  {
    RunLog log(out.end(), err.end());
    unsetenv("JOURNAL_STREAM");
    log.line(LogLevel::kInfo, "a\nb");
    log.line(LogLevel::kError, "c");
    log.configure(LogLevel::kDebug, LogStyle::kJson, nullptr);
    log.line(LogLevel::kDebug, "d");
  }
  EXPECT_THAT(err.read(), testing::MatchesRegex("<6>a\\\\x0Ab\n<3>c\n<7>\\{[^\n]*\"d\"\\}\n"));
}

/// A syslog daemon's socket.
class Daemon {
 public:
  explicit Daemon(std::string path) : path_(std::move(path)) {
    unlink(path_.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    SLUICE_CHECK(fd_ >= 0 && bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  ~Daemon() {
    close(fd_);
    unlink(path_.c_str());
  }
  /// The next datagram; empty if none comes.
  std::string read() {
    pollfd readable{fd_, POLLIN, 0};
    char bytes[8192];
    const ssize_t got = poll(&readable, 1, 10'000) == 1 ? recv(fd_, bytes, sizeof bytes, 0) : 0;
    return {bytes, static_cast<size_t>(std::max<ssize_t>(got, 0))};
  }

 private:
  const std::string path_;
  int fd_;
};

TEST(RunLog, SendsToSyslog) {
  Pipe out, err;
  const std::string path = testing::TempDir() + "sluice_syslog_" + std::to_string(getpid());
  const LogDestination to{LogDestination::Kind::kSyslog, path};
  EXPECT_THAT(LogSink::open(to).status().message(),
              testing::HasSubstr("cannot be connected to; start the syslog daemon"));
  auto daemon = std::make_unique<Daemon>(path);
  auto sink = LogSink::open(to);
  ASSERT_TRUE(sink.ok()) << sink.status();
  RunLog log(out.end(), err.end());
  log.start();
  log.configure(LogLevel::kInfo, LogStyle::kText, std::move(*sink));
  const std::string begin = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z [^ ]+ sluice " + std::to_string(getpid());
  log.line(LogLevel::kWarning, "one\ntwo");
  EXPECT_THAT(daemon->read(), testing::MatchesRegex("<28>1 " + begin + " - - one\\\\x0Atwo"));
  // The daemon is gone: lines are lost, and counted.
  daemon.reset();
  log.line(LogLevel::kInfo, "lost");
  EXPECT_TRUE(err.reads("cannot be written to: "));
  // Another one: the first line says what was lost.
  daemon = std::make_unique<Daemon>(path);
  log.line(LogLevel::kError, "three");
  EXPECT_THAT(daemon->read(), testing::MatchesRegex("<28>1 " + begin +
                                                    " - - syslog [^ ]* could not be written to "
                                                    "[^\n]*; dropped: 1, in total: 1"));
  EXPECT_THAT(daemon->read(), testing::MatchesRegex("<27>1 " + begin + " - - three"));
  // A daemon that reads nothing: nobody waits.
  for (int i = 0; i < 2000; ++i) log.line(LogLevel::kInfo, std::string(1000, 'x'));
  EXPECT_GT(log.lines_dropped(), 1u);
  const auto before = Clock::now();
  log.stop();
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(5));
}

TEST(RunLog, LimitSaysWhatItLeftOut) {
  LogLimit limit(2);
  int admitted = 0;
  for (int i = 0; i < 5; ++i) admitted += log_admits(limit, 5000);
  EXPECT_EQ(admitted, 2);
  EXPECT_TRUE(log_admits(limit, 6000));
  EXPECT_EQ(left_out_text(limit), " (lines of this kind left out before this one: 3)");
  EXPECT_EQ(left_out_text(limit), "");
}

TEST(RunLog, CountsSuppressedLines) {
  LogLimit limit;
  const uint64_t before = log_lines_suppressed();
  for (uint32_t i = 0; i < LogLimit::kPerSecond + 3; ++i) static_cast<void>(log_admits(limit, 5000));
  EXPECT_EQ(log_lines_suppressed(), before + 3);
}

}  // namespace
}  // namespace sluice
