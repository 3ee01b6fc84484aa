#include "proxy/log/line_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <random>
#include <string>
#include <thread>

namespace sluice {
namespace {

// A line of `bytes` bytes that contains its number.
std::string numbered(uint64_t number, size_t bytes) {
  std::string line = std::to_string(number);
  line.resize(bytes - 1, static_cast<char>('a' + number % 26));
  return line + '\n';
}

bool put(LineQueue& queue, const std::string& line) {
  const std::span<char> room = queue.begin();
  if (room.empty()) return false;
  EXPECT_EQ(room.size(), kMaxLogLineBytes);
  std::memcpy(room.data(), line.data(), line.size());
  static_cast<void>(queue.commit(line.size()));
  return true;
}

std::string text_of(const LineQueue::Unread& unread) {
  std::string text;
  for (const iovec& part : unread.parts) text.append(static_cast<const char*>(part.iov_base), part.iov_len);
  return text;
}

TEST(LineQueue, TakesMemoryWithTheFirstLine) {
  LineQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(text_of(queue.unread()), "");
  ASSERT_TRUE(put(queue, "one\n"));
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(text_of(queue.unread()), "one\n");
  queue.release(4, 1);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(text_of(queue.unread()), "");
}

// Positions have 32 bits: more than 4 GiB pass through.
TEST(LineQueue, PositionsBeginAnew) {
  LineQueue queue;
  const std::string line = numbered(7, 5000);
  const uint64_t count = (uint64_t{1} << 32) / line.size() + 100;
  for (uint64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(put(queue, line));
    const LineQueue::Unread unread = queue.unread();
    ASSERT_EQ(unread.bytes, line.size());
    ASSERT_EQ(unread.lines, 1U);
    queue.release(unread.bytes, unread.lines);
  }
  ASSERT_TRUE(put(queue, line));
  EXPECT_EQ(text_of(queue.unread()), line);
}

size_t resident_bytes(const void* of) {
  std::ifstream maps("/proc/self/smaps");
  size_t begin = 0, end = 0;
  for (std::string line; std::getline(maps, line);) {
    if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2) continue;
    const auto at = reinterpret_cast<uintptr_t>(of);
    size_t kib = 0;
    if (at >= begin && at < end && std::sscanf(line.c_str(), "Rss: %zu kB", &kib) == 1) return kib * 1024;
  }
  return 0;
}

// Memory follows the lines that wait, and goes back when they are written.
TEST(LineQueue, HoldsMemoryForWhatWaits) {
  LineQueue queue;
  const char* const memory = queue.begin().data();
  const std::string line = numbered(0, 1000);
  const auto resident = [&] { return resident_bytes(memory); };
  for (int i = 0; i < 10'000; ++i) {  // 10 MB, of which little waits at once.
    ASSERT_TRUE(put(queue, line));
    queue.release(line.size(), 1);
  }
  EXPECT_LE(resident(), 3 * LineQueue::kSegmentBytes);
  size_t bytes = 0, lines = 0;
  for (; put(queue, line); ++lines) bytes += line.size();
  EXPECT_GT(bytes, LineQueue::kBytes - (LineQueue::kSegments + 1) * kMaxLogLineBytes);
  EXPECT_GT(resident(), LineQueue::kBytes * 3 / 4);
  queue.trim();  // Lines that wait stay.
  EXPECT_EQ(text_of(queue.unread()).size(), bytes);
  EXPECT_EQ(queue.unread().lines, lines);
  EXPECT_GT(resident(), LineQueue::kBytes * 3 / 4);
  queue.release(bytes, lines);
  queue.trim();
  EXPECT_LE(resident(), LineQueue::kSegmentBytes + 4096);
  for (bytes = 0; put(queue, line);) bytes += line.size();
  EXPECT_EQ(text_of(queue.unread()).size(), bytes);
}

// A segment that is full to its last byte has no successor until the next line.
TEST(LineQueue, ExactlyFullSegment) {
  LineQueue queue;
  for (int lap = 0; lap < 3; ++lap) {
    for (size_t i = 0; i < LineQueue::kSegmentBytes / kMaxLogLineBytes; ++i) {
      const std::string line = numbered(i, kMaxLogLineBytes);
      ASSERT_TRUE(put(queue, line));
      EXPECT_EQ(text_of(queue.unread()), line);
      queue.release(line.size(), 1);
      EXPECT_EQ(text_of(queue.unread()), "");
    }
  }
  EXPECT_TRUE(queue.empty());
}

TEST(LineQueue, RepeatedBeginAllocatesNothing) {
  LineQueue queue;
  char* const first = queue.begin().data();
  EXPECT_EQ(queue.begin().data(), first);
  EXPECT_TRUE(queue.empty());
}

// Compared with a queue of lines, over many laps.
TEST(LineQueue, AgreesWithAQueue) {
  constexpr int kSteps = kDebugChecks ? 30 : 80;
  uint64_t refused = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    std::mt19937_64 random(seed);
    // Some seeds have lines that end laps in every possible way.
    const size_t longest = seed % 3 == 0 ? kMaxLogLineBytes : seed % 3 == 1 ? 300 : 4096;
    LineQueue queue;
    std::deque<std::string> waiting;
    size_t bytes = 0;
    uint64_t number = 0;
    for (int step = 0; step < kSteps; ++step) {
      for (uint64_t burst = random() % 700; burst > 0; --burst) {
        const size_t length = seed % 4 == 3 ? kMaxLogLineBytes >> (random() % 8) : 24 + random() % (longest - 23);
        const std::string line = numbered(number, length);
        if (!put(queue, line)) {
          // Full means full: except for the unused end of each segment, and one that is being read.
          ASSERT_GT(bytes, LineQueue::kBytes - (LineQueue::kSegments * kMaxLogLineBytes + LineQueue::kSegmentBytes));
          ++refused;
          break;
        }
        ++number;
        bytes += line.size();
        waiting.push_back(line);
      }
      const LineQueue::Unread unread = queue.unread();
      ASSERT_EQ(unread.bytes, bytes);
      ASSERT_EQ(unread.lines, waiting.size());
      if (step % 4 == 0) {
        std::string expected;
        for (const std::string& line : waiting) expected += line;
        ASSERT_EQ(text_of(unread), expected) << "seed " << seed << " step " << step;
      }
      for (const iovec& part : unread.parts) {  // No line is split.
        if (part.iov_len > 0) {
          ASSERT_EQ(static_cast<const char*>(part.iov_base)[part.iov_len - 1], '\n');
        }
      }
      size_t done = 0, done_lines = 0;
      for (const uint64_t most = random() % 450; done_lines < most && !waiting.empty(); ++done_lines) {
        done += waiting.front().size();
        waiting.pop_front();
      }
      queue.release(done, done_lines);
      bytes -= done;
      ASSERT_EQ(queue.empty(), waiting.empty());
    }
    EXPECT_GT(number, 50u * kSteps);
  }
  EXPECT_GT(refused, 20u);  // Otherwise no queue was ever full.
}

TEST(LineQueue, WakesTheReaderOnce) {
  LineQueue queue;
  const auto commit = [&](size_t bytes) {
    const std::string line = numbered(0, bytes);
    std::memcpy(queue.begin().data(), line.data(), bytes);
    return queue.commit(bytes);
  };
  EXPECT_FALSE(commit(100));  // The reader does not wait.
  queue.call_at(1000);
  EXPECT_FALSE(commit(800));
  EXPECT_TRUE(commit(100));
  EXPECT_FALSE(commit(100));
  static_cast<void>(queue.unread());
  queue.release(1100, 4);
  queue.call_at(1000);
  EXPECT_FALSE(commit(999));
  EXPECT_TRUE(commit(5));
  queue.call_at(1);
  EXPECT_TRUE(commit(5));
  EXPECT_FALSE(commit(5));
}

TEST(LineQueue, TwoThreads) {
  constexpr uint64_t kLines = kDebugChecks ? 100'000 : 1'000'000;
  LineQueue queue;
  std::thread producer([&] {
    std::mt19937_64 random(1);
    for (uint64_t i = 0; i < kLines;) {
      const size_t length = random() % 50 == 0 ? 24 + random() % (kMaxLogLineBytes - 23) : 24 + random() % 300;
      for (const std::string line = numbered(i, length); !put(queue, line);) std::this_thread::yield();
      ++i;
    }
  });
  uint64_t next = 0, wrong = 0;
  while (next < kLines) {
    const LineQueue::Unread unread = queue.unread();
    size_t bytes = 0;
    const uint64_t before = next;
    for (const iovec& part : unread.parts) {
      std::string_view text(static_cast<const char*>(part.iov_base), part.iov_len);
      bytes += text.size();
      while (!text.empty()) {
        const size_t end = text.find('\n');
        const std::string expected = numbered(next, std::max<size_t>(end + 1, 24));
        wrong += text.substr(0, end + 1) != expected;
        text.remove_prefix(end + 1);
        ++next;
      }
    }
    if (bytes == 0) {
      queue.trim();
      std::this_thread::yield();
    }
    wrong += unread.bytes != bytes || unread.lines != next - before;
    queue.release(unread.bytes, unread.lines);
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace sluice
