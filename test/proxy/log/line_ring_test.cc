#include "proxy/log/line_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
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

bool put(LineRing& ring, const std::string& line) {
  const std::span<char> room = ring.begin();
  if (room.empty()) return false;
  EXPECT_EQ(room.size(), kMaxLogLineBytes);
  std::memcpy(room.data(), line.data(), line.size());
  static_cast<void>(ring.commit(line.size()));
  return true;
}

std::string text_of(const std::array<iovec, 2>& parts) {
  std::string text;
  for (const iovec& part : parts) text.append(static_cast<const char*>(part.iov_base), part.iov_len);
  return text;
}

TEST(LineRing, TakesMemoryWithTheFirstLine) {
  LineRing ring;
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(text_of(ring.unread()), "");
  ASSERT_TRUE(put(ring, "one\n"));
  EXPECT_FALSE(ring.empty());
  EXPECT_EQ(text_of(ring.unread()), "one\n");
  ring.release(4);
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(text_of(ring.unread()), "");
}

TEST(LineRing, RepeatedBeginAllocatesNothing) {
  LineRing ring;
  char* const first = ring.begin().data();
  EXPECT_EQ(ring.begin().data(), first);
  EXPECT_TRUE(ring.empty());
}

// Compared with a queue of lines, over many laps.
TEST(LineRing, AgreesWithAQueue) {
  constexpr int kSteps = kDebugChecks ? 150 : 1000;
  uint64_t refused = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    std::mt19937_64 random(seed);
    // Some seeds have lines that end laps in every possible way.
    const size_t longest = seed % 3 == 0 ? kMaxLogLineBytes : seed % 3 == 1 ? 300 : 4096;
    LineRing ring;
    std::deque<std::string> waiting;
    size_t bytes = 0;
    uint64_t number = 0;
    for (int step = 0; step < kSteps; ++step) {
      for (uint64_t burst = random() % 40; burst > 0; --burst) {
        const size_t length = seed % 4 == 3 ? kMaxLogLineBytes >> (random() % 8) : 24 + random() % (longest - 23);
        const std::string line = numbered(number, length);
        if (!put(ring, line)) {
          // Full means full: except for a longest line, and the unused end of each of two laps.
          ASSERT_GT(bytes, LineRing::kBytes - 3 * kMaxLogLineBytes);
          ++refused;
          break;
        }
        ++number;
        bytes += line.size();
        waiting.push_back(line);
      }
      std::string expected;
      for (const std::string& line : waiting) expected += line;
      const auto parts = ring.unread();
      ASSERT_EQ(text_of(parts), expected) << "seed " << seed << " step " << step;
      for (const iovec& part : parts) {  // No line is split.
        if (part.iov_len > 0) {
          ASSERT_EQ(static_cast<const char*>(part.iov_base)[part.iov_len - 1], '\n');
        }
      }
      size_t done = 0;
      for (uint64_t lines = random() % 45; lines > 0 && !waiting.empty(); --lines) {
        done += waiting.front().size();
        waiting.pop_front();
      }
      ring.release(done);
      bytes -= done;
      ASSERT_EQ(ring.empty(), waiting.empty());
    }
    EXPECT_GT(number, 10u * kSteps);
  }
  EXPECT_GT(refused, 50u);  // Otherwise no ring was ever full.
}

TEST(LineRing, WakesTheReaderOnce) {
  LineRing ring;
  const auto commit = [&](size_t bytes) {
    const std::string line = numbered(0, bytes);
    std::memcpy(ring.begin().data(), line.data(), bytes);
    return ring.commit(bytes);
  };
  EXPECT_FALSE(commit(100));  // The reader does not wait.
  ring.call_at(1000);
  EXPECT_FALSE(commit(800));
  EXPECT_TRUE(commit(100));
  EXPECT_FALSE(commit(100));
  static_cast<void>(ring.unread());
  ring.release(1100);
  ring.call_at(1000);
  EXPECT_FALSE(commit(999));
  EXPECT_TRUE(commit(5));
  ring.call_at(1);
  EXPECT_TRUE(commit(5));
  EXPECT_FALSE(commit(5));
}

TEST(LineRing, TwoThreads) {
  constexpr uint64_t kLines = kDebugChecks ? 100'000 : 1'000'000;
  LineRing ring;
  std::thread producer([&] {
    std::mt19937_64 random(1);
    for (uint64_t i = 0; i < kLines;) {
      const size_t length = random() % 50 == 0 ? 24 + random() % (kMaxLogLineBytes - 23) : 24 + random() % 300;
      for (const std::string line = numbered(i, length); !put(ring, line);) std::this_thread::yield();
      ++i;
    }
  });
  uint64_t next = 0, wrong = 0;
  while (next < kLines) {
    const auto parts = ring.unread();
    size_t bytes = 0;
    for (const iovec& part : parts) {
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
    if (bytes == 0) std::this_thread::yield();
    ring.release(bytes);
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace sluice
