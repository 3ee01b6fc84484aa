// The defect of gVisor's bufferv2, tested with each of our operations that grow a buffer: clone, truncate the clone,
// grow it with zeros. There the original reads "hello\0\0\0\0\0\0" afterwards, because growth clears bytes of the chunk
// without checking who shares it.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "sluice/appender.h"
#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;

class GrowThroughSharedChunk : public test::PoolTest {
 protected:
  const std::string zeros_ = std::string(6, '\0');
  // Each appends six zeros.
  const std::function<void(Buffer&)> growers_[6] = {
      [this](Buffer& buffer) { ASSERT_TRUE(buffer.grow(pool_, 6)); },
      [this](Buffer& buffer) { ASSERT_TRUE(buffer.append_copy(pool_, zeros_)); },
      [this](Buffer& buffer) {
        Lease room = buffer.reserve(pool_, 6);
        std::memset(room.data(), 0, room.size());
        room.truncate(6);
        buffer.append(std::move(room));
      },
      [this](Buffer& buffer) {
        Appender out(buffer, pool_);
        for (int i = 0; i < 6; ++i) out.u8(0);
      },
      [this](Buffer& buffer) { buffer.append_packed(pool_, view_of(zeros_)); },
      [this](Buffer& buffer) { buffer.append(lease_of(zeros_)); },
  };
};

TEST_F(GrowThroughSharedChunk, OriginalDoesNotChange) {
  for (const auto& grow : growers_) {
    Buffer original = buffer_of("hello world", 40);
    Buffer clone = original.clone();
    clone.truncate(5);
    grow(clone);
    EXPECT_EQ(text_of(original), "hello world");
    EXPECT_EQ(text_of(clone), "hello" + zeros_);
  }
}

TEST_F(GrowThroughSharedChunk, CloneDoesNotChange) {
  for (const auto& grow : growers_) {
    Buffer original = buffer_of("hello world", 40);
    const Buffer clone = original.clone();
    original.truncate(5);
    grow(original);
    EXPECT_EQ(text_of(clone), "hello world");
    EXPECT_EQ(text_of(original), "hello" + zeros_);
  }
}

TEST_F(GrowThroughSharedChunk, CutOffPartDoesNotChange) {
  for (const auto& grow : growers_) {
    Buffer back = buffer_of("hello world", 40);
    Buffer front = back.split_front(5);
    grow(front);
    EXPECT_EQ(text_of(back), " world");
    EXPECT_EQ(text_of(front), "hello" + zeros_);
  }
}

TEST_F(GrowThroughSharedChunk, ClonedPartDoesNotChange) {
  for (const auto& grow : growers_) {
    Buffer original = buffer_of("hello world", 40);
    Buffer part = original.clone(2, 3);
    grow(part);
    EXPECT_EQ(text_of(original), "hello world");
    EXPECT_EQ(text_of(part), "llo" + zeros_);
  }
}

TEST_F(GrowThroughSharedChunk, HeadroomIsNotUsedEither) {
  Buffer original = buffer_of("hello world");
  Buffer clone = original.clone();
  clone.trim_front(6);
  ASSERT_TRUE(clone.prepend_copy(pool_, std::as_bytes(std::span(zeros_))));
  EXPECT_EQ(text_of(original), "hello world");
  EXPECT_EQ(text_of(clone), zeros_ + "world");
}

}  // namespace
}  // namespace sluice
