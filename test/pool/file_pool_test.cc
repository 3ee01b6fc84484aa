// Chunks in a file: their sizes, their blocks on disk, when these are returned, and the limit.

#include "sluice/file_pool.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "test/pool/file_pool_fixture.h"

namespace sluice {
namespace {

using test::chunk_of;
using test::expect_on_disk;
using test::is_filled;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kExtent = FilePool::kExtentBytes;

class FilePoolTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(files_.ok()) << files_.error().message; }
  void TearDown() override {
    EXPECT_EQ(files_.stats().out_chunks, 0u) << "chunks did not come home";
    files_.trim();
    EXPECT_EQ(files_.disk_bytes(), 0u);
    expect_on_disk(files_);
  }
  /// Takes chunks until the pool refuses.
  std::vector<ChunkRef> take_all(size_t bytes) {
    std::vector<ChunkRef> chunks;
    while (Chunk* chunk = files_.get(bytes)) chunks.push_back(ChunkRef::take(chunk));
    return chunks;
  }

  FilePool files_{{.directory = test::file_directory(), .limit_bytes = 16 * kExtent, .step_bytes = 4 * kExtent}};
};

TEST_F(FilePoolTest, ChunkIsTheSmallestTierOfAPageOrMore) {
  const struct {
    size_t wanted, capacity;
  } cases[] = {{0, 4096}, {1, 4096}, {4096, 4096}, {4097, 8192}, {16384, 16384}, {32769, 65536}, {65536, 65536}};
  for (const auto& c : cases) {
    const ChunkRef chunk = chunk_of(files_, c.wanted);
    EXPECT_EQ(chunk.capacity(), c.capacity);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(chunk.data()) % 4096, 0u);
    EXPECT_TRUE(chunk.unique());
    EXPECT_TRUE(chunk.writable());
    EXPECT_EQ(chunk.get()->kind, ChunkKind::kExternal);
    EXPECT_TRUE(files_.contains(chunk.data()));
    EXPECT_TRUE(files_.contains(chunk.data() + chunk.capacity() - 1));
  }
  const int elsewhere = 0;
  EXPECT_FALSE(files_.contains(reinterpret_cast<const std::byte*>(&elsewhere)));
  EXPECT_FALSE(files_.contains(nullptr));
}

TEST_F(FilePoolTest, ChunksDoNotOverlap) {
  std::vector<ChunkRef> chunks;
  for (int round = 0; round < 3; ++round) {
    for (int tier = tier_for(4096); tier < kTierCount; ++tier) chunks.push_back(chunk_of(files_, tier_bytes(tier)));
  }
  for (size_t i = 0; i < chunks.size(); ++i) std::memset(chunks[i].data(), static_cast<int>(i), chunks[i].capacity());
  for (size_t i = 0; i < chunks.size(); ++i) EXPECT_TRUE(is_filled(chunks[i], static_cast<int>(i))) << i;
}

TEST_F(FilePoolTest, SmallChunksShareAnExtent) {
  std::vector<ChunkRef> chunks;
  for (int i = 0; i < 16; ++i) chunks.push_back(chunk_of(files_, 4096));
  EXPECT_EQ(files_.stats().out_bytes, kExtent);
  files_.trim();
  EXPECT_EQ(files_.disk_bytes(), kExtent);
  expect_on_disk(files_);
  chunks.erase(chunks.begin() + 1, chunks.end());
  files_.trim();
  EXPECT_EQ(files_.disk_bytes(), kExtent) << "one chunk keeps it";
  const ChunkRef again = chunk_of(files_, 1);
  EXPECT_EQ(files_.disk_bytes(), kExtent) << "there was room in it";
}

TEST_F(FilePoolTest, BlocksAreReservedInStepsAndReturned) {
  EXPECT_EQ(files_.disk_bytes(), 0u);
  expect_on_disk(files_);
  std::vector<ChunkRef> chunks;
  chunks.push_back(chunk_of(files_, kExtent));
  EXPECT_EQ(files_.disk_bytes(), 4 * kExtent);
  expect_on_disk(files_);
  for (int i = 0; i < 4; ++i) chunks.push_back(chunk_of(files_, kExtent));
  EXPECT_EQ(files_.disk_bytes(), 8 * kExtent);
  expect_on_disk(files_);
  files_.trim();
  EXPECT_EQ(files_.disk_bytes(), 5 * kExtent);
  expect_on_disk(files_);
  chunks.erase(chunks.begin() + 1, chunks.end());  // The pool's thread returns blocks once more than a step is free.
  EXPECT_EQ(files_.disk_bytes(), 5 * kExtent) << "not by who releases";
  chunks.clear();
  files_.trim();
  EXPECT_EQ(files_.disk_bytes(), 0u);
  EXPECT_EQ(files_.file_system_bytes(), 0u);
  const FilePool::Stats stats = files_.stats();
  EXPECT_EQ(stats.out_bytes_peak, 5 * kExtent);
  EXPECT_EQ(stats.disk_bytes_peak, 8 * kExtent);
  EXPECT_EQ(stats.given_back_bytes, 8 * kExtent);
  EXPECT_EQ(stats.give_back_errors, 0u);
}

TEST_F(FilePoolTest, ReservedBlocksServeTheNextChunks) {
  const std::byte* const data = chunk_of(files_, kExtent).data();
  EXPECT_EQ(chunk_of(files_, kExtent).data(), data);
  EXPECT_EQ(chunk_of(files_, 4096).data(), data) << "an extent may change its tier";
  EXPECT_EQ(chunk_of(files_, kExtent).data(), data);
  files_.trim();
  EXPECT_EQ(chunk_of(files_, kExtent).data(), data) << "holes are filled before the file grows";
}

TEST_F(FilePoolTest, HoleInTheMiddleIsReturnedAndFilledAgain) {
  std::vector<ChunkRef> chunks = take_all(kExtent);
  ASSERT_EQ(chunks.size(), 16u);
  std::swap(chunks[5], chunks[0]);
  std::swap(chunks[6], chunks[1]);
  const std::byte* const data = chunks[0].data();
  std::memset(chunks[2].data(), 2, kExtent);
  std::memset(chunks[7].data(), 7, kExtent);
  chunks.erase(chunks.begin(), chunks.begin() + 2);
  files_.trim();
  EXPECT_EQ(files_.disk_bytes(), 14 * kExtent);
  expect_on_disk(files_);
  EXPECT_TRUE(is_filled(chunks[0], 2));
  EXPECT_TRUE(is_filled(chunks[5], 7));
  const ChunkRef chunk = chunk_of(files_, kExtent);
  EXPECT_EQ(chunk.data(), data);
  EXPECT_TRUE(is_filled(chunk, 0)) << "what was punched out reads as zero";
  EXPECT_EQ(files_.disk_bytes(), 16 * kExtent);
  expect_on_disk(files_);
}

// Evicts the file of the latest pool from memory.
void drop_page_cache() {
  for (int fd = 1023; fd > 2; --fd) {
    struct stat status{};
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 0) continue;
    ASSERT_EQ(fsync(fd), 0);
    ASSERT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    return;
  }
  ADD_FAILURE() << "no file without a name is open";
}

TEST_F(FilePoolTest, WritesKeepNoBlocksOfNeighbors) {
  FilePool files({.directory = test::file_directory(), .limit_bytes = 512 * kExtent, .step_bytes = 512 * kExtent});
  ASSERT_TRUE(files.ok());
  std::vector<ChunkRef> chunks, others;
  std::vector<char> bytes(kExtent, 1);
  for (int i = 0; i < 512; ++i) {
    chunks.push_back(chunk_of(files, kExtent));
    iovec piece{bytes.data(), bytes.size()};
    ASSERT_TRUE(files.write(chunks.back().data(), {&piece, 1}));
  }
  for (size_t i = 0; i < 512; i += 2) others.push_back(std::move(chunks[i]));
  others.clear();
  files.trim();
  drop_page_cache();
  EXPECT_EQ(files.disk_bytes(), 256 * kExtent);
  test::expect_on_disk(files);
  for (size_t i = 1; i < 512; i += 2) EXPECT_TRUE(is_filled(chunks[i], 1));
  for (size_t i = 1; i < 512; i += 2) chunks[i].data()[7] = std::byte{2};
  files.trim();
  EXPECT_EQ(files.disk_bytes(), 256 * kExtent);
  test::expect_on_disk(files);
}

// Waits until the pool has no more than `bytes` on disk; false after 20 seconds.
bool comes_down_to(const FilePool& files, size_t bytes) {
  for (int i = 0; i < 2000 && files.disk_bytes() > bytes; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return files.disk_bytes() <= bytes;
}

TEST_F(FilePoolTest, MoreThanAStepIsReturnedAutomatically) {
  const auto start = std::chrono::steady_clock::now();
  take_all(kExtent).clear();
  EXPECT_TRUE(comes_down_to(files_, 4 * kExtent));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  expect_on_disk(files_);
}

TEST_F(FilePoolTest, UnusedBlocksAreReturnedAutomatically) {
  std::vector<ChunkRef> chunks;
  chunks.push_back(chunk_of(files_, kExtent));
  EXPECT_TRUE(comes_down_to(files_, kExtent)) << "the rest of the step";
  chunks.clear();
  EXPECT_TRUE(comes_down_to(files_, 0));
  expect_on_disk(files_);
}

TEST_F(FilePoolTest, LimitIsAClearError) {
  std::vector<ChunkRef> chunks = take_all(kExtent);
  EXPECT_EQ(chunks.size(), 16u);
  EXPECT_EQ(files_.stats().refused_by_limit, 1u);
  EXPECT_EQ(files_.disk_bytes(), files_.stats().limit_bytes);
  FileError error;
  EXPECT_EQ(files_.get(5000, &error), nullptr);
  EXPECT_EQ(error.kind, FileError::Kind::kLimit);
  EXPECT_EQ(error.message, "no room for 8192 more bytes in a file in " + test::file_directory() +
                               " (1048576 bytes in use, limit 1048576): the limit is used up; raise it, or let fewer "
                               "bytes wait");
  EXPECT_EQ(files_.stats().refused_by_limit, 2u);
  EXPECT_EQ(files_.stats().refused_by_disk, 0u);
  chunks.pop_back();
  EXPECT_TRUE(chunk_of(files_, kExtent));
}

TEST_F(FilePoolTest, LimitThatIsNoMultipleOfAStepOrAnExtent) {
  FilePool files({.directory = test::file_directory(), .limit_bytes = 7 * kExtent + 1, .step_bytes = 3 * kExtent + 5});
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files.stats().limit_bytes, 7 * kExtent);
  std::vector<ChunkRef> chunks;
  while (Chunk* chunk = files.get(kExtent)) chunks.push_back(ChunkRef::take(chunk));
  EXPECT_EQ(chunks.size(), 7u);
  EXPECT_EQ(files.disk_bytes(), 7 * kExtent);
  expect_on_disk(files);
}

TEST_F(FilePoolTest, WriteFillsAPartOfAChunk) {
  const ChunkRef chunk = ChunkRef::take(files_.get(kExtent, nullptr, ChunkKind::kReadOnly));
  ASSERT_TRUE(chunk);
  EXPECT_FALSE(chunk.writable());
  std::vector<char> ones(100, 1), twos(3000, 2), threes(kExtent, 3), none;
  iovec whole{threes.data(), threes.size()};
  ASSERT_TRUE(files_.write(chunk.data(), {&whole, 1}));
  std::array<iovec, 4> pieces{{{none.data(), 0}, {ones.data(), 100}, {none.data(), 0}, {twos.data(), 3000}}};
  ASSERT_TRUE(files_.write(chunk.data() + 1000, pieces));
  const auto at = [&](size_t offset) { return static_cast<int>(chunk.data()[offset]); };
  EXPECT_EQ(at(999), 3);
  EXPECT_EQ(at(1000), 1);
  EXPECT_EQ(at(1099), 1);
  EXPECT_EQ(at(1100), 2);
  EXPECT_EQ(at(4099), 2);
  EXPECT_EQ(at(4100), 3);
  EXPECT_TRUE(files_.write(chunk.data(), {}));
}

TEST_F(FilePoolTest, WriteTakesMorePiecesThanOneSystemCall) {
  const ChunkRef chunk = chunk_of(files_, kExtent);
  std::vector<char> bytes(kExtent);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 / 3);
  std::vector<iovec> pieces;
  for (size_t i = 0; i < bytes.size(); i += 16) pieces.push_back({&bytes[i], 16});
  ASSERT_TRUE(files_.write(chunk.data(), pieces));
  EXPECT_EQ(std::memcmp(chunk.data(), bytes.data(), kExtent), 0);
}

TEST_F(FilePoolTest, ChunksMayBeReleasedOnAnyThread) {
  std::thread([chunk = chunk_of(files_, 5000), other = chunk_of(files_, kExtent)] {}).join();
  EXPECT_EQ(files_.stats().out_chunks, 0u);
  EXPECT_EQ(files_.stats().out_bytes, 0u);
}

TEST_F(FilePoolTest, FileHasNoName) {
  const ChunkRef chunk = chunk_of(files_, kExtent);
  std::string maps(1 << 20, '\0');
  FILE* file = std::fopen("/proc/self/maps", "r");
  ASSERT_NE(file, nullptr);
  maps.resize(std::fread(maps.data(), 1, maps.size(), file));
  std::fclose(file);
  EXPECT_THAT(maps, AllOf(HasSubstr(test::file_directory() + "/"), HasSubstr("(deleted)")));
}

}  // namespace
}  // namespace sluice
