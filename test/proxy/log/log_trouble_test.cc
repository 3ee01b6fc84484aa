// Logs that cannot be written for a while, or at all.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <termios.h>

#include <algorithm>

#include "proxy/access_log/access_log.h"
#include "test/proxy/log/log_rig.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

class LogFailureTest : public test::LogTest {
 protected:
  // A named pipe, and a reader that does not read yet.
  int make_fifo(const std::string& name) {
    SLUICE_CHECK(mkfifo(path(name).c_str(), 0600) == 0);
    return open_reader(name);
  }
  int open_reader(const std::string& name) { return ::open(path(name).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }

  // Logs until a while after there is no more room. Returns how many lines were accepted; the others are in refused_.
  uint64_t fill(AccessLogWriter& writer, uint64_t first = 0, size_t bytes = 200) {
    uint64_t next = first;
    for (int in_a_row = 0; in_a_row < 20;) {
      if (put(writer, line_of(0, next, bytes))) {
        ++next;
        in_a_row = 0;
      } else {
        ++in_a_row;
        ++refused_;
        std::this_thread::sleep_for(test::milliseconds(5));
      }
    }
    return next - first;
  }
  uint64_t refused_ = 0;
  static size_t count(const std::string& text, std::string_view what) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
    return found;
  }
};

TEST_F(LogFailureTest, PipeWithoutReader) {
  const int reader = make_fifo("fifo");
  testing::internal::CaptureStderr();
  auto logs = open({path("fifo"), path("log")});
  const uint64_t taken = fill(logs->writer(0, 0));
  EXPECT_GT(taken * 200, LineQueue::kBytes * 3 / 4);
  EXPECT_EQ(logs->dropped(0), refused_);
  EXPECT_EQ(logs->errors(0), 0u);
  // The other log continues.
  ASSERT_TRUE(put(logs->writer(1, 0), line_of(0, 0, 100)));
  EXPECT_TRUE(comes_true([&] { return contents(path("log")) == line_of(0, 0, 100); }));
  ASSERT_TRUE(comes_true([&] { return logs->written(0) > 0; }));
  // When the pipe is read, it has all accepted lines, and then the new ones.
  EXPECT_EQ(numbers(read_lines(reader, *logs, taken), 1)[0], up_to(taken));
  ASSERT_TRUE(put(logs->writer(0, 0), line_of(0, taken, 100)));
  EXPECT_EQ(read_lines(reader, *logs, taken + 1), line_of(0, taken, 100));
  EXPECT_EQ(logs->written(0), taken + 1);
  EXPECT_EQ(logs->dropped(0), refused_);
  logs.reset();
  close(reader);
  const std::string output = testing::internal::GetCapturedStderr();
  EXPECT_THAT(output, AllOf(HasSubstr('"' + path("fifo") + '"'), HasSubstr("more slowly than they arrive")));
  EXPECT_EQ(count(output, "\n"), 1u) << output;
}

// Lines of two workers that no pipe takes in one piece, while the reader takes a little at a time.
TEST_F(LogFailureTest, LongLinesIntoASlowPipe) {
  constexpr uint64_t kLines = 150;
  const int reader = make_fifo("fifo");
  ASSERT_EQ(fcntl(reader, F_SETPIPE_SZ, 4096), 4096);
  auto logs = open({path("fifo")}, 2);
  std::vector<std::thread> threads;
  for (size_t w = 0; w < 2; ++w) {
    threads.emplace_back([&, w] {
      for (uint64_t i = 0; i < kLines; ++i) {
        while (!put(logs->writer(0, w), line_of(w, i, i % 3 == 0 ? kMaxLogLineBytes : 3000 + i * 10))) {
          std::this_thread::sleep_for(test::milliseconds(1));
        }
      }
    });
  }
  std::string text;
  ASSERT_TRUE(comes_true(
      [&] {
        char bytes[700];
        const ssize_t result = read(reader, bytes, sizeof bytes);
        if (result > 0) text.append(bytes, static_cast<size_t>(result));
        if (text.size() > 100'000) text += read_some(reader);
        return logs->written(0) == 2 * kLines;
      },
      test::seconds(60)));
  text += read_some(reader);
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_worker : numbers(text, 2)) EXPECT_EQ(of_worker, up_to(kLines));
  close(reader);
}

// The process's own standard output or error, in blocking mode, to which others write as well.
class OwnStreamTest : public LogFailureTest {
 protected:
  // Uses `end` as the process's `own` while the logs are opened.
  static std::unique_ptr<AccessLogs> open_own(int own, int end, const std::string& target, size_t workers = 1) {
    std::fflush(stdout);
    const int before = dup(own);
    SLUICE_CHECK(before >= 0 && dup2(end, own) == own);
    auto logs = AccessLogs::open({target}, workers);
    SLUICE_CHECK(dup2(before, own) == own);
    close(before);
    SLUICE_CHECK(logs.ok());
    EXPECT_EQ(fcntl(end, F_GETFL) & O_NONBLOCK, 0) << "it would hold for those who share it, too";
    return std::move(*logs);
  }
  // Blocked, read, blocked again at exit.
  void check(std::unique_ptr<AccessLogs> logs, int reader) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(logs->reopen().ok());
    const uint64_t taken = fill(logs->writer(0, 0));
    EXPECT_EQ(numbers(read_lines(reader, *logs, taken), 1)[0], up_to(taken));
    fill(logs->writer(0, 0), taken);
    const auto start = Clock::now();
    logs.reset();
    EXPECT_LT(Clock::now() - start, test::seconds(3));
    testing::internal::GetCapturedStderr();
  }
};

TEST_F(OwnStreamTest, Pipe) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);  // Only the reader's end.
  check(open_own(STDOUT_FILENO, ends[1], "stdout"), ends[0]);
  for (const int fd : ends) close(fd);
}

// A service manager's socket: it cannot be opened by its name.
TEST_F(OwnStreamTest, Socket) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ASSERT_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);  // Only the reader's end.
  check(open_own(STDERR_FILENO, ends[1], "stderr"), ends[0]);
  for (const int fd : ends) close(fd);
}

TEST_F(OwnStreamTest, Terminal) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) GTEST_SKIP() << "there are no pseudo-terminals";
  const int terminal = ::open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(terminal, 0);
  termios mode;
  ASSERT_EQ(tcgetattr(terminal, &mode), 0);
  cfmakeraw(&mode);
  ASSERT_EQ(tcsetattr(terminal, TCSANOW, &mode), 0);
  check(open_own(STDOUT_FILENO, terminal, "stdout"), master);
  for (const int fd : {master, terminal}) close(fd);
}

// A slow socket takes a line in pieces, and the other worker's lines are written nevertheless.
TEST_F(OwnStreamTest, TwoWorkersIntoASlowSocket) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ASSERT_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);  // Only the reader's end.
  auto logs = open_own(STDERR_FILENO, ends[1], "stderr", 2);
  testing::internal::CaptureStderr();
  const uint64_t taken = fill(logs->writer(0, 0), 0, 3000);
  ASSERT_TRUE(put(logs->writer(0, 1), line_of(1, 0, 100)));
  const auto found = numbers(read_lines(ends[0], *logs, taken + 1), 2);
  EXPECT_EQ(found[0], up_to(taken));
  EXPECT_EQ(found[1], up_to(1));
  logs.reset();
  testing::internal::GetCapturedStderr();
  for (const int fd : ends) close(fd);
}

TEST_F(LogFailureTest, FullDisk) {
  testing::internal::CaptureStderr();
  auto logs = open({"/dev/full", path("log")});
  const uint64_t taken = fill(logs->writer(0, 0));
  EXPECT_GT(taken * 200, LineQueue::kBytes * 3 / 4);
  ASSERT_TRUE(comes_true([&] { return logs->errors(0) >= 2; }));  // It is retried,
  EXPECT_EQ(logs->written(0), 0u);
  EXPECT_EQ(logs->dropped(0), refused_);
  const uint64_t errors = logs->errors(0);
  for (uint64_t i = 1; i <= 12; ++i) {  // but not each time that the other log is written, which works.
    ASSERT_TRUE(put(logs->writer(1, 0), line_of(0, i, 100)));
    ASSERT_TRUE(comes_true([&] { return logs->written(1) == i; }));
  }
  EXPECT_LE(logs->errors(0), errors + 8);
  const auto start = Clock::now();
  logs->close();
  EXPECT_LT(Clock::now() - start, test::milliseconds(900)) << "nobody waits for a full disk";
  EXPECT_EQ(logs->dropped(0), refused_ + taken);
  const std::string output = testing::internal::GetCapturedStderr();
  EXPECT_THAT(output, AllOf(HasSubstr("\"/dev/full\": No space left on device; retrying"),
                            HasSubstr("lost at exit: " + std::to_string(taken) +
                                      ", dropped in total: " + std::to_string(refused_ + taken))));
  EXPECT_EQ(count(output, "\n"), 2u) << output;
}

// A limit on the size of files is like a disk that becomes full in the middle of a line, and then has room again.
class FileLimit {
 public:
  explicit FileLimit(size_t bytes) {
    before_signal_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, before_signal_);
  }

 private:
  rlimit before_;
  void (*before_signal_)(int);
};

TEST_F(LogFailureTest, ResumesInTheMiddleOfALine) {
  testing::internal::CaptureStderr();
  auto logs = open({path("log")}, 2);
  {
    const FileLimit limit(30'050);
    for (uint64_t i = 0; i < 200; ++i) {
      ASSERT_TRUE(put(logs->writer(0, 0), line_of(0, i, 200)));
      ASSERT_TRUE(put(logs->writer(0, 1), line_of(1, i, 200)));
    }
    ASSERT_TRUE(comes_true([&] { return logs->errors(0) >= 2; }));
    EXPECT_EQ(contents(path("log")).size(), 30'050u);
    EXPECT_EQ(logs->written(0), 150u);
  }
  ASSERT_TRUE(comes_true([&] { return logs->written(0) == 400; }));
  for (const auto& of_worker : numbers(contents(path("log")), 2)) EXPECT_EQ(of_worker, up_to(200));
  EXPECT_EQ(logs->dropped(0), 0u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr('"' + path("log") + "\": File too large"), HasSubstr("can be written again")));
}

TEST_F(LogFailureTest, IsRetriedAtExit) {
  testing::internal::CaptureStderr();
  auto logs = open({path("log")});
  {
    const FileLimit limit(30'050);
    for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(put(logs->writer(0, 0), line_of(0, i, 200)));
    ASSERT_TRUE(comes_true([&] { return logs->errors(0) >= 1; }));
  }
  logs->close();
  EXPECT_EQ(logs->written(0), 200u);
  EXPECT_EQ(numbers(contents(path("log")), 1)[0], up_to(200));
  testing::internal::GetCapturedStderr();
}

TEST_F(LogFailureTest, PartialLineIsCompleteInTheNextFile) {
  testing::internal::CaptureStderr();
  auto logs = open({path("log")});
  {
    const FileLimit limit(30'050);
    for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(put(logs->writer(0, 0), line_of(0, i, 200)));
    ASSERT_TRUE(comes_true([&] { return logs->errors(0) >= 1; }));
    std::filesystem::rename(path("log"), path("log.1"));
    ASSERT_TRUE(logs->reopen().ok());
    ASSERT_TRUE(comes_true([&] { return logs->written(0) == 200; }));
  }
  EXPECT_EQ(contents(path("log.1")).size(), 30'050u);
  std::vector<uint64_t> found = numbers(contents(path("log.1")).substr(0, 30'000), 1)[0];
  const auto rest = numbers(contents(path("log")), 1)[0];
  found.insert(found.end(), rest.begin(), rest.end());
  EXPECT_EQ(found, up_to(200));
  testing::internal::GetCapturedStderr();
}

TEST_F(LogFailureTest, ReopenedInTheMiddleOfALine) {
  testing::internal::CaptureStderr();
  auto logs = open({path("log")});
  {
    const FileLimit limit(30'050);
    for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(put(logs->writer(0, 0), line_of(0, i, 200)));
    ASSERT_TRUE(comes_true([&] { return logs->errors(0) >= 1; }));
    const uint64_t before = logs->errors(0);
    ASSERT_TRUE(logs->reopen().ok());  // The same file: the line continues where it was.
    ASSERT_TRUE(comes_true([&] { return logs->errors(0) > before; }));
  }
  ASSERT_TRUE(comes_true([&] { return logs->written(0) == 200; }));
  EXPECT_EQ(numbers(contents(path("log")), 1)[0], up_to(200));
  testing::internal::GetCapturedStderr();
}

TEST_F(LogFailureTest, NewReader) {
  int reader = make_fifo("fifo");
  ASSERT_EQ(fcntl(reader, F_SETPIPE_SZ, 4096), 4096);
  testing::internal::CaptureStderr();
  auto logs = open({path("fifo")});
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(put(logs->writer(0, 0), line_of(0, i, kMaxLogLineBytes)));
  // The first reader has read the first line, and half of the second is in the pipe.
  std::string first(kMaxLogLineBytes, '?');
  size_t bytes = 0;
  ASSERT_TRUE(comes_true([&] {
    const ssize_t result = read(reader, first.data() + bytes, first.size() - bytes);
    bytes += static_cast<size_t>(std::max<ssize_t>(result, 0));
    return bytes == first.size();
  }));
  EXPECT_EQ(first, line_of(0, 0, kMaxLogLineBytes));
  ASSERT_TRUE(comes_true([&] {
    int waiting = 0;
    return ioctl(reader, FIONREAD, &waiting) == 0 && waiting == 4096;
  }));
  close(reader);
  ASSERT_TRUE(comes_true([&] { return logs->errors(0) >= 1; }));
  EXPECT_EQ(logs->written(0), 1u);
  reader = open_reader("fifo");
  const std::string text = read_lines(reader, *logs, 20);
  // The data in the pipe is still there, and is continued.
  EXPECT_EQ(numbers(first + text, 1)[0], up_to(20));
  logs.reset();
  close(reader);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), AllOf(HasSubstr("Broken pipe"), HasSubstr("written again")));
}

TEST_F(LogFailureTest, BlockedPipeDoesNotDelayExit) {
  const int reader = make_fifo("fifo");
  testing::internal::CaptureStderr();
  auto logs = open({path("fifo"), path("log")});
  const uint64_t taken = fill(logs->writer(0, 0));
  ASSERT_TRUE(put(logs->writer(1, 0), "x\n"));
  const auto start = Clock::now();
  logs->close();
  const auto spent = Clock::now() - start;
  EXPECT_GT(spent, test::milliseconds(900));  // It might still have been read.
  EXPECT_LT(spent, test::milliseconds(2500));
  EXPECT_EQ(contents(path("log")), "x\n");
  const uint64_t written = logs->written(0);
  EXPECT_GT(written, 0u);
  EXPECT_EQ(logs->dropped(0), refused_ + taken - written);
  EXPECT_EQ(numbers(read_some(reader), 1)[0], up_to(written));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("its reader accepts no lines; lost at exit: " + std::to_string(taken - written))));
  close(reader);
}

TEST_F(LogFailureTest, SlowReaderGetsTheRestAtExit) {
  const int reader = make_fifo("fifo");
  testing::internal::CaptureStderr();
  auto logs = open({path("fifo")});
  const uint64_t taken = fill(logs->writer(0, 0));
  std::string text;
  std::thread reading([&] {
    std::this_thread::sleep_for(test::milliseconds(300));
    text = read_lines(reader, *logs, taken);
  });
  logs->close();
  reading.join();
  EXPECT_EQ(numbers(text, 1)[0], up_to(taken));
  EXPECT_EQ(logs->dropped(0), refused_);
  testing::internal::GetCapturedStderr();
  close(reader);
}

}  // namespace
}  // namespace sluice
