// Buffers that move to a file: their bytes, the memory that becomes free, what is shared, and what happens when the
// file takes no more.

#include "sluice/spill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/copied.h"
#include "test/buffer/pool_fixture.h"
#include "test/pool/file_pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;

constexpr size_t kExtent = FilePool::kExtentBytes;

class SpillTest : public test::PoolTest {
 protected:
  void SetUp() override { ASSERT_TRUE(files_.ok()) << files_.error().message; }
  void TearDown() override {
    PoolTest::TearDown();
    EXPECT_EQ(files_.stats().out_chunks, 0u) << "chunks did not come home";
    files_.trim();
    EXPECT_EQ(files_.disk_bytes(), 0u);
    test::expect_on_disk(files_);
  }
  bool all_in_file(const Buffer& buffer) const {
    for (std::span<const std::byte> window : buffer.windows()) {
      if (!files_.contains(window.data())) return false;
    }
    return true;
  }
  /// Text in which no two neighboring pieces of a page are equal.
  static std::string long_text(size_t bytes) {
    std::string text(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + i / 13 % 26 + i / 4099 % 3);
    return text;
  }

  FilePool files_{{.directory = test::file_directory(), .limit_bytes = 64 * kExtent, .step_bytes = 8 * kExtent}};
};

TEST_F(SpillTest, MovesAllBytesAndFreesTheirMemory) {
  for (size_t bytes : {size_t{1}, size_t{4095}, size_t{4096}, size_t{65536}, size_t{65537}, size_t{1000000}}) {
    const std::string text = long_text(bytes);
    Buffer buffer;
    ASSERT_TRUE(append_copy(buffer, text));
    EXPECT_GE(pool_.out_bytes(), bytes);
    const uint64_t before = copied_bytes;
    FileError error;
    ASSERT_TRUE(spill(buffer, files_, &error)) << error.message;
    EXPECT_EQ(copied_bytes - before, bytes);
    EXPECT_TRUE(all_in_file(buffer));
    EXPECT_EQ(buffer.window_count(), (bytes + kExtent - 1) / kExtent);
    EXPECT_EQ(text_of(buffer), text);
    EXPECT_EQ(pool_.out_bytes(), buffer.window_count() > 3 ? 256 * ((buffer.window_count() + 12) / 13) : 0)
        << "only the chain itself is in memory";
    EXPECT_LE(files_.stats().out_bytes, std::max(2 * bytes, size_t{4096}));
    test::expect_on_disk(files_);
  }
}

TEST_F(SpillTest, EmptyBufferStaysEmpty) {
  Buffer buffer;
  EXPECT_TRUE(spill(buffer, files_));
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(files_.disk_bytes(), 0u);
}

TEST_F(SpillTest, ManySmallWindowsBecomeFewLargeOnes) {
  const std::string text = long_text(3 * kExtent);
  Buffer buffer = test::buffer_of(pool_, text, test::splits_every(100, text.size()));
  EXPECT_GT(buffer.window_count(), 1900u);
  ASSERT_TRUE(spill(buffer, files_));
  EXPECT_EQ(buffer.window_count(), 3u);
  EXPECT_EQ(text_of(buffer), text);
}

TEST_F(SpillTest, WritesAfterASpillGoToMemory) {
  const std::string text = long_text(kExtent + 10);
  Buffer buffer;
  ASSERT_TRUE(append_copy(buffer, text));
  ASSERT_TRUE(spill(buffer, files_));
  EXPECT_FALSE(test::overwrite(buffer, 0, 'x'));
  ASSERT_TRUE(append_copy(buffer, "more"));
  EXPECT_EQ(buffer.window_count(), 3u) << "not into the last chunk";
  ASSERT_TRUE(buffer.make_writable(pool_, kExtent, 10));
  EXPECT_TRUE(test::overwrite(buffer, 1, 'y'));
  EXPECT_EQ(text_of(buffer), text.substr(0, kExtent) + std::string(10, 'y') + "more");
  Buffer front = buffer.split_front(kExtent - 5);
  EXPECT_FALSE(test::overwrite(front, 0, 'x'));
  EXPECT_FALSE(test::overwrite(buffer, 0, 'x'));
  EXPECT_EQ(text_of(front), text.substr(0, kExtent - 5));
}

TEST_F(SpillTest, WindowsInTheFileStay) {
  Buffer buffer, more;
  ASSERT_TRUE(append_copy(buffer, "first "));
  ASSERT_TRUE(spill(buffer, files_));
  const std::byte* const data = buffer.window(0).data();
  buffer.append(view_of("second "));
  ASSERT_TRUE(append_copy(more, "third "));
  ASSERT_TRUE(spill(more, files_));
  buffer.append(std::move(more));
  buffer.append(view_of("fourth"));
  buffer.append(view_of(" fifth"));
  const uint64_t before = copied_bytes;
  ASSERT_TRUE(spill(buffer, files_));
  EXPECT_EQ(copied_bytes - before, std::string("second fourth fifth").size());
  EXPECT_TRUE(all_in_file(buffer));
  EXPECT_EQ(buffer.window(0).data(), data);
  EXPECT_EQ(text_of(buffer), "first second third fourth fifth");
  const uint64_t after = copied_bytes;
  const std::byte* const last = buffer.window(3).data();
  ASSERT_TRUE(spill(buffer, files_));
  EXPECT_EQ(copied_bytes, after);
  EXPECT_EQ(buffer.window(3).data(), last);
}

TEST_F(SpillTest, OtherHoldersKeepTheirBytes) {
  Buffer buffer = buffer_of(std::string(1000, 'x'));
  Buffer clone = buffer.clone();
  ASSERT_TRUE(spill(buffer, files_));
  EXPECT_EQ(pool_.out_bytes(), 1024u);
  EXPECT_TRUE(test::overwrite(clone, 0, 'y')) << "it is the only one left";
  EXPECT_EQ(text_of(buffer), std::string(1000, 'x'));
  Buffer second = buffer.clone();
  ASSERT_TRUE(spill(second, files_)) << "its window is in the file: nothing to do";
  EXPECT_EQ(second.window(0).data(), buffer.window(0).data());
}

TEST_F(SpillTest, AllOrNothing) {
  const std::string text = long_text(40 * kExtent);
  Buffer first, second;
  ASSERT_TRUE(append_copy(first, text));
  ASSERT_TRUE(spill(first, files_));
  ASSERT_TRUE(append_copy(second, text.substr(0, 100)));
  ASSERT_TRUE(spill(second, files_));
  Buffer rest;
  ASSERT_TRUE(append_copy(rest, text));
  second.append(std::move(rest));
  const size_t in_memory = pool_.out_bytes(), in_file = files_.stats().out_bytes, windows = second.window_count();
  FileError error;
  EXPECT_FALSE(spill(second, files_, &error));
  EXPECT_EQ(error.kind, FileError::Kind::kLimit);
  EXPECT_FALSE(spill(second, files_));
  EXPECT_EQ(second.window_count(), windows);
  EXPECT_EQ(text_of(second), text.substr(0, 100) + text);
  EXPECT_EQ(pool_.out_bytes(), in_memory);
  EXPECT_EQ(files_.stats().out_bytes, in_file);
  first.clear();
  EXPECT_TRUE(spill(second, files_, &error)) << error.message;
  EXPECT_EQ(text_of(second), text.substr(0, 100) + text);
}

TEST_F(SpillTest, SlowReaderReleasesTheDiskGradually) {
  Buffer buffer;
  ASSERT_TRUE(append_copy(buffer, long_text(32 * kExtent)));
  ASSERT_TRUE(spill(buffer, files_));
  for (size_t left = 32; left > 0; --left) {
    EXPECT_EQ(files_.stats().out_bytes, left * kExtent);
    buffer.trim_front(kExtent);
  }
}

TEST_F(SpillTest, BuffersInTheFileMoveBetweenThreads) {
  const std::string text = long_text(10 * kExtent + 5);
  Buffer buffer;
  ASSERT_TRUE(append_copy(buffer, text));
  ASSERT_TRUE(spill(buffer, files_));
  std::thread([&text, taken = std::move(buffer)] { EXPECT_EQ(text_of(taken), text); }).join();
  pool_.take_remote_frees();
  EXPECT_EQ(files_.stats().out_chunks, 0u);
}

// Random buffers, cut, joined, cloned and spilled, each compared with its text.
TEST_F(SpillTest, RandomBuffersKeepTheirBytes) {
  std::mt19937 random(1);
  int spilled = 0;
  struct Modelled {
    Buffer buffer;
    std::string text;
  };
  std::vector<Modelled> all(4);
  const std::string text = long_text(300000);
  for (int step = 0; step < 1000; ++step) {
    Modelled& one = all[random() % all.size()];
    Modelled& other = all[random() % all.size()];
    switch (random() % 6) {
      case 0:
      case 1: {
        const std::string more = text.substr(random() % 200000, random() % (random() % 4 ? 3000 : 90000));
        if (one.text.size() < 300000 && append_copy(one.buffer, more)) one.text += more;
        break;
      }
      case 2:
        if (spill(one.buffer, files_)) {
          EXPECT_TRUE(all_in_file(one.buffer));
          ++spilled;
        }
        break;
      case 3: {
        const size_t cut = one.text.empty() ? 0 : random() % one.text.size();
        if (&one == &other) break;
        other.buffer = one.buffer.split_front(cut);
        other.text = one.text.substr(0, cut);
        one.text.erase(0, cut);
        break;
      }
      case 4:
        if (&one == &other || one.text.size() + other.text.size() > 400000) break;
        one.buffer.append(other.buffer.clone());
        one.text += other.text;
        break;
      case 5:
        if (one.buffer.empty()) break;
        if (const std::span<std::byte> window = one.buffer.writable_window(0); !window.empty()) {
          window[0] = std::byte{'!'};
          one.text[0] = '!';
        }
        break;
    }
    ASSERT_EQ(text_of(one.buffer), one.text) << "step " << step;
    ASSERT_EQ(text_of(other.buffer), other.text) << "step " << step;
  }
  EXPECT_GT(spilled, 50) << "of those that were tried";
}

}  // namespace
}  // namespace sluice
