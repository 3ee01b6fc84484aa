// Messages of protobuf: what the writer writes, what the reader reads, and what it refuses.
#include "test/support/proto.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

#include "proxy/common/proto_reader.h"
#include "proxy/common/proto_writer.h"

namespace sluice {
namespace {

using namespace std::string_literals;  // NOLINT(google-build-using-namespace)
using test::proto_bytes;
using test::proto_number;

TEST(ProtoWriterTest, Fields) {
  std::array<char, 200> room;
  ProtoWriter out(room);
  out.number(1, 0);
  out.number(2, UINT64_MAX);
  out.fixed64(3, 0x0102030405060708);
  out.text(4, "a\0b"s);
  out.hex(16, "00ff1a");
  EXPECT_TRUE(out.ok());
  EXPECT_EQ(out.written(), proto_number(1, 0) + proto_number(2, UINT64_MAX) + "\x19\x08\x07\x06\x05\x04\x03\x02\x01"s +
                               proto_bytes(4, "a\0b"s) + proto_bytes(16, "\x00\xff\x1a"s));
}

// Their length is known only at their end, and may need more than the one byte that was left for it.
TEST(ProtoWriterTest, NestedMessages) {
  for (const size_t size : {size_t{0}, size_t{100}, size_t{123}, size_t{127}, size_t{128}, size_t{20000}}) {
    const std::string text(size, 't');
    std::string room(30000, '\0');
    ProtoWriter out(room);
    const size_t outer = out.begin(1);
    const size_t inner = out.begin(2);
    out.text(3, text);
    out.end(inner);
    out.number(4, 5);
    out.end(outer);
    out.number(6, 7);
    EXPECT_TRUE(out.ok());
    EXPECT_EQ(out.written(),
              proto_bytes(1, proto_bytes(2, proto_bytes(3, text)) + proto_number(4, 5)) + proto_number(6, 7));
  }
}

TEST(ProtoWriterTest, LittleRoom) {
  const std::string whole = proto_bytes(1, proto_bytes(2, std::string(130, 't')));
  for (size_t size = 0; size <= whole.size(); ++size) {
    std::string room(size, '\0');
    ProtoWriter out(room);
    const size_t message = out.begin(1);
    out.utf8(2, std::string(130, 't'));
    out.end(message);
    EXPECT_EQ(out.ok(), size == whole.size()) << size;
    EXPECT_LE(out.written().size(), size);
  }
}

TEST(ProtoWriterTest, Utf8) {
  const auto written = [](std::string_view text) {
    std::array<char, 100> room;
    ProtoWriter out(room);
    out.utf8(1, text);
    return std::string(out.written().substr(2));
  };
  const std::string good = "a\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf";
  EXPECT_EQ(written(good), good);
  EXPECT_EQ(written("a\xff"), "a!");
  EXPECT_EQ(written("\x80z"), "!z");
  EXPECT_EQ(written("\xc0\x80"), "!!");            // Overlong.
  EXPECT_EQ(written("\xe0\x80\x80"), "!!!");       // The same.
  EXPECT_EQ(written("\xed\xa0\x80"), "!!!");       // A surrogate.
  EXPECT_EQ(written("\xf4\x90\x80\x80"), "!!!!");  // Beyond the last character.
  EXPECT_EQ(written("\xe2\x82"), "!!");            // Cut off.
  EXPECT_EQ(written("\xc3("), "!(");
}

TEST(ProtoReaderTest, Fields) {
  const std::string message = proto_number(1, 300) + proto_bytes(2, "text") + "\x1d\x04\x03\x02\x01"s +
                              "\x21\x08\x07\x06\x05\x04\x03\x02\x01"s + proto_bytes(536870911, "");
  ProtoReader in(message);
  ASSERT_TRUE(in.next());
  EXPECT_TRUE(in.is(1, ProtoWire::kVarint));
  EXPECT_FALSE(in.is(1, ProtoWire::kBytes));
  EXPECT_EQ(in.number(), 300u);
  ASSERT_TRUE(in.next());
  EXPECT_TRUE(in.is(2, ProtoWire::kBytes));
  EXPECT_EQ(in.bytes(), "text");
  EXPECT_EQ(in.number(), 0u);
  ASSERT_TRUE(in.next());
  EXPECT_TRUE(in.is(3, ProtoWire::kFixed32));
  EXPECT_EQ(in.number(), 0x01020304u);
  ASSERT_TRUE(in.next());
  EXPECT_TRUE(in.is(4, ProtoWire::kFixed64));
  EXPECT_EQ(in.number(), 0x0102030405060708u);
  ASSERT_TRUE(in.next());
  EXPECT_TRUE(in.is(536870911, ProtoWire::kBytes));
  EXPECT_FALSE(in.next());
  EXPECT_TRUE(in.ok());
}

TEST(ProtoReaderTest, Malformed) {
  const auto whole = [](std::string_view message) {
    ProtoReader in(message);
    while (in.next()) {
    }
    return in.ok();
  };
  EXPECT_TRUE(whole(""));
  EXPECT_TRUE(whole("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s));
  for (const std::string& message : {
           "\x08"s,                                                   // No value.
           "\x80"s,                                                   // Half a tag.
           "\x08\xff"s,                                               // Half a number.
           "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s,       // Eleven bytes.
           "\x0a\x02x"s,                                              // A text that is longer than what is there.
           "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"s,          // The same, with 2^64 - 1.
           "\x0d\x01\x02\x03"s, "\x09\x01\x02\x03\x04\x05\x06\x07"s,  // Half a fixed number.
           "\x0b\x0c"s,                                               // A group.
           "\x0e"s, "\x0f"s,                                          // Wire types that do not exist.
           "\x00\x00"s,                                               // Field 0.
           "\x80\x80\x80\x80\x10\x00"s,                               // Field 2^29.
       }) {
    EXPECT_FALSE(whole(message)) << testing::PrintToString(message);
    EXPECT_FALSE(whole(proto_number(1, 1) + message));
  }
}

}  // namespace
}  // namespace sluice
