#include "sluice/reservation.h"

#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;

class ReservationTest : public test::PoolTest {
 protected:
  // Writes `text` to the pieces as readv would.
  static void store(const Reservation& room, std::string_view text) {
    for (const iovec& piece : room.iovecs()) {
      const size_t bytes = std::min(piece.iov_len, text.size());
      std::memcpy(piece.iov_base, text.data(), bytes);
      text.remove_prefix(bytes);
    }
    ASSERT_TRUE(text.empty());
  }
  static std::string letters(size_t size) {
    std::string text(size, 0);
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 23);
    return text;
  }
};

TEST_F(ReservationTest, BeginsInTheTailroomAndCommitsAnyNumberOfBytes) {
  for (const size_t count : {0u, 1u, 57u, 58u, 59u, 122u, 123u, 200u, 250u}) {
    Buffer buffer = buffer_of("start ");  // 58 bytes of tailroom.
    const std::byte* const tail = buffer.back().data() + 6;
    {
      Reservation room(buffer, pool_, 200, 64);
      ASSERT_EQ(room.iovecs().size(), 4u);
      EXPECT_EQ(room.iovecs()[0].iov_base, tail);
      EXPECT_EQ(room.size(), 58u + 3 * 64);
      EXPECT_EQ(pool_.leaked(), 4u);
      store(room, letters(count));
      room.commit(count);
      EXPECT_TRUE(room.empty());
      EXPECT_TRUE(room.iovecs().empty());
    }
    EXPECT_EQ(text_of(buffer), "start " + letters(count));
    const size_t windows = 1 + (count > 58 ? (count - 58 + 63) / 64 : 0);
    EXPECT_EQ(buffer.window_count(), windows) << "the tail continues its window";
    EXPECT_EQ(pool_.leaked(), windows + (windows > 3 ? 1 : 0)) << "the rest went back at once";
    ASSERT_TRUE(append_copy(buffer, "!"));
    EXPECT_EQ(text_of(buffer), "start " + letters(count) + "!");
  }
}

TEST_F(ReservationTest, DroppedItHasNoEffect) {
  Buffer buffer = buffer_of("start ");
  {
    const Reservation room(buffer, pool_, 1000, 100);
  }
  EXPECT_EQ(text_of(buffer), "start ");
  EXPECT_EQ(pool_.leaked(), 1u);
}

TEST_F(ReservationTest, NeverWritesBehindSharedBytes) {
  Buffer buffer = buffer_of("start ");
  const Buffer clone = buffer.clone();
  Reservation room(buffer, pool_, 10, 64);
  store(room, "more");
  room.commit(4);
  EXPECT_EQ(text_of(buffer), "start more");
  EXPECT_EQ(buffer.window_count(), 2u);
  EXPECT_EQ(text_of(clone), "start ");
}

TEST_F(ReservationTest, TakesWhatTheBudgetAllows) {
  ChunkPool small({.budget_bytes = 192});
  ChunkPool::Use use(&small);
  Buffer buffer;
  {
    Reservation room(buffer, small, 1000, 64);
    EXPECT_EQ(room.size(), 192u);
    Buffer other;
    const Reservation none(other, small, 1, 64);
    EXPECT_TRUE(none.empty());
    EXPECT_TRUE(none.iovecs().empty());
  }
  EXPECT_EQ(small.leaked(), 0u);
}

TEST_F(ReservationTest, HasABoundOfPieces) {
  Buffer buffer;
  const Reservation room(buffer, pool_, 1 << 20);
  EXPECT_EQ(room.iovecs().size(), Reservation::kMaxPieces);
  EXPECT_EQ(room.size(), Reservation::kMaxPieces * kMaxChunkBytes);
  const Reservation nothing(buffer, pool_, 0);
  EXPECT_TRUE(nothing.empty());
}

TEST_F(ReservationTest, ReceivesFromAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string sent = letters(10'000);
  ASSERT_EQ(write(ends[1], sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
  Buffer buffer;
  Reservation room(buffer, pool_, 16'384, 4096);
  const ssize_t count = readv(ends[0], room.iovecs().data(), static_cast<int>(room.iovecs().size()));
  ASSERT_EQ(count, static_cast<ssize_t>(sent.size()));
  room.commit(static_cast<size_t>(count));
  EXPECT_EQ(text_of(buffer), sent);
  EXPECT_EQ(buffer.window_count(), 3u);
  EXPECT_EQ(copied(), 0u);
  for (const int end : ends) close(end);
}

using ReservationDeathTest = ReservationTest;

TEST_F(ReservationDeathTest, MoreThanThereIs) {
  Buffer buffer;
  Reservation room(buffer, pool_, 64, 64);
  EXPECT_DEATH(room.commit(65), "check failed");
}

}  // namespace
}  // namespace sluice
