// The streams with protobuf itself. Compiled only where protobuf is there (test/CMakeLists.txt).

#include "sluice/protobuf_streams.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message_lite.h>
#include <gtest/gtest.h>
#include <protobuf_streams.pb.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;

class ProtobufStreams : public test::PoolTest {
 protected:
  static sluice_test::Entries entries(size_t count) {
    std::mt19937 random(1);
    sluice_test::Entries all;
    for (size_t i = 0; i < count; ++i) {
      sluice_test::Entry& entry = *all.add_entries();
      entry.set_key("key " + std::to_string(i));
      entry.set_value(std::string(random() % 700, static_cast<char>('a' + i % 26)));
      entry.set_number(static_cast<int64_t>(random()) - (int64_t{1} << 31));
    }
    return all;
  }
};

// The guide's examples, for any message.
bool parse(google::protobuf::MessageLite& message, Buffer& body) {
  BufferInputStream in(body);
  if (!message.ParseFromZeroCopyStream(&in)) return false;
  body.trim_front(static_cast<size_t>(in.ByteCount()));
  return true;
}

bool serialize(const google::protobuf::MessageLite& message, ChunkPool& pool, Buffer& body) {
  const size_t before = body.size();
  bool whole = false;
  {
    BufferOutputStream out(body, pool);
    whole = message.SerializeToZeroCopyStream(&out);
  }  // The buffer receives the bytes here.
  if (!whole) body.truncate(before);
  return whole;
}

TEST_F(ProtobufStreams, GuideExamples) {
  Buffer body;
  ASSERT_TRUE(serialize(entries(3), pool_, body));
  sluice_test::Entries parsed;
  ASSERT_TRUE(parse(parsed, body));
  EXPECT_EQ(parsed.SerializeAsString(), entries(3).SerializeAsString());
  EXPECT_TRUE(body.empty());
  ChunkPool small({.budget_bytes = 4096});
  EXPECT_FALSE(serialize(entries(40), small, body));
  EXPECT_TRUE(body.empty());
}

TEST_F(ProtobufStreams, ParsesFromWindowsOfAnySize) {
  const sluice_test::Entries all = entries(40);
  const std::string bytes = all.SerializeAsString();
  for (const size_t piece : {1u, 2u, 3u, 7u, 100u, 1000u, 30'000u}) {
    const Buffer buffer = test::buffer_of(pool_, "skip" + bytes, test::splits_every(piece, bytes.size() + 4));
    BufferInputStream in(buffer, 4);
    sluice_test::Entries parsed;
    ASSERT_TRUE(parsed.ParseFromZeroCopyStream(&in)) << piece;
    EXPECT_EQ(parsed.SerializeAsString(), bytes);
    EXPECT_EQ(in.ByteCount(), static_cast<int64_t>(bytes.size()));
  }
  EXPECT_EQ(copied(), 0u);
}

TEST_F(ProtobufStreams, RefusesWhatIsCut) {
  const std::string bytes = entries(1).SerializeAsString();
  const Buffer buffer = buffer_of(bytes.substr(0, bytes.size() - 1));
  BufferInputStream in(buffer);
  EXPECT_FALSE(sluice_test::Entries().ParseFromZeroCopyStream(&in));
}

TEST_F(ProtobufStreams, SerializesBehindWhatIsThere) {
  const sluice_test::Entries all = entries(40);
  for (const size_t chunk_bytes : {1u, 64u, 100u, 4096u, 65536u}) {
    Buffer buffer = buffer_of("before", 5);
    {
      BufferOutputStream out(buffer, pool_, chunk_bytes);
      ASSERT_TRUE(all.SerializeToZeroCopyStream(&out));
      EXPECT_EQ(out.ByteCount(), static_cast<int64_t>(all.ByteSizeLong()));
    }
    EXPECT_EQ(text_of(buffer), "before" + all.SerializeAsString());
  }
  EXPECT_EQ(copied(), 0u);
}

TEST_F(ProtobufStreams, SerializesNothingBehindSharedBytes) {
  Buffer buffer = buffer_of("before");
  const Buffer clone = buffer.clone();
  {
    BufferOutputStream out(buffer, pool_);
    ASSERT_TRUE(entries(1).SerializeToZeroCopyStream(&out));
  }
  EXPECT_EQ(text_of(buffer), "before" + entries(1).SerializeAsString());
  EXPECT_EQ(text_of(clone), "before");
}

TEST_F(ProtobufStreams, FailsWhenTheBudgetIsExhausted) {
  ChunkPool small({.budget_bytes = 1024});
  ChunkPool::Use use(&small);
  Buffer buffer;
  {
    BufferOutputStream out(buffer, small, 256);
    EXPECT_FALSE(entries(40).SerializeToZeroCopyStream(&out));
  }
  EXPECT_LE(buffer.size(), 1024u);
  buffer.clear();
  EXPECT_EQ(small.leaked(), 0u);
}

// What the interface requires of Next, BackUp, Skip and ByteCount, in any order.
TEST_F(ProtobufStreams, InputKeepsTheRulesOfTheInterface) {
  std::string bytes(500, 0);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const Buffer buffer = test::buffer_of(pool_, bytes, test::splits_every(1 + random() % 60, bytes.size()));
    BufferInputStream in(buffer);
    size_t at = 0;
    while (at < bytes.size()) {
      if (random() % 3 == 0) {
        const size_t count = random() % 80;
        EXPECT_EQ(in.Skip(static_cast<int>(count)), at + count <= bytes.size());
        at = std::min(bytes.size(), at + count);
      } else {
        const void* data = nullptr;
        int size = 0;
        ASSERT_TRUE(in.Next(&data, &size));
        ASSERT_GT(size, 0);
        ASSERT_EQ(std::memcmp(data, bytes.data() + at, static_cast<size_t>(size)), 0);
        const int back = random() % 2 == 0 ? static_cast<int>(random() % static_cast<unsigned>(size + 1)) : 0;
        if (back > 0) in.BackUp(back);
        at += static_cast<size_t>(size - back);
      }
      ASSERT_EQ(in.ByteCount(), static_cast<int64_t>(at));
    }
    const void* data = nullptr;
    int size = 0;
    EXPECT_FALSE(in.Next(&data, &size));
    EXPECT_TRUE(in.Skip(0));
    EXPECT_FALSE(in.Skip(1));
  }
}

TEST_F(ProtobufStreams, ManyWritersInTurn) {
  Buffer buffer;
  std::string expected;
  {
    BufferOutputStream out(buffer, pool_, 64);
    for (uint32_t i = 0; i < 100; ++i) {  // Each leaves the rest of what it got to the next.
      google::protobuf::io::CodedOutputStream coded(&out);
      coded.WriteVarint32(i * i * i);
      coded.WriteRaw("text", 4);
    }
    out.flush();
    EXPECT_EQ(buffer.size(), static_cast<size_t>(out.ByteCount()));
  }
  BufferInputStream in(buffer);
  google::protobuf::io::CodedInputStream coded(&in);
  for (uint32_t i = 0; i < 100; ++i) {
    uint32_t value = 0;
    char text[4];
    ASSERT_TRUE(coded.ReadVarint32(&value) && coded.ReadRaw(text, 4));
    EXPECT_EQ(value, i * i * i);
  }
}

using ProtobufStreamsDeathTest = ProtobufStreams;

TEST_F(ProtobufStreamsDeathTest, BackingUpTooFar) {
  const Buffer buffer = buffer_of("four");
  BufferInputStream in(buffer);
  const void* data = nullptr;
  int size = 0;
  ASSERT_TRUE(in.Next(&data, &size));
  EXPECT_DEATH(in.BackUp(5), "check failed");
  in.BackUp(4);
  EXPECT_DEATH(in.BackUp(1), "check failed");
}

}  // namespace
}  // namespace sluice
