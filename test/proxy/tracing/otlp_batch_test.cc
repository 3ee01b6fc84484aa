#include "proxy/tracing/otlp_batch.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

class OtlpBatchTest : public testing::Test {
 protected:
  Span span() const {
    return {.trace_id = "0af7651916cd43dd8448eb211c80319c",
            .id = "b7ad6b7169203331",
            .parent_id = "00f067aa0ba902b7",
            .kind = Span::Kind::kClient,
            .name = "GET",
            .start_ns = 1,
            .end_ns = 0x0102030405060708,
            .attributes = {},
            .failed = true};
  }

  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
  OtlpBatch batch_;
};

// By the numbers of opentelemetry-proto 1.x. (test/e2e/tracing_test.py decodes spans with its own classes.)
TEST_F(OtlpBatchTest, Bytes) {
  const std::array attributes{OtlpAttribute::of("k", "v"), OtlpAttribute::of("empty", ""),
                              OtlpAttribute::of_number("n", 300)};
  Span one = span();
  one.attributes = attributes;
  ASSERT_TRUE(batch_.add(pool_, one));
  EXPECT_EQ(batch_.count(), 1u);
  const std::string trace("\x0a\x10\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c", 18);
  const std::string ids("\x12\x08\xb7\xad\x6b\x71\x69\x20\x33\x31\x22\x08\x00\xf0\x67\xaa\x0b\xa9\x02\xb7", 20);
  const std::string name("\x2a\x03GET\x30\x03", 7);
  const std::string times("\x39\x01\0\0\0\0\0\0\0\x41\x08\x07\x06\x05\x04\x03\x02\x01", 18);
  const std::string pairs("\x4a\x08\x0a\x01k\x12\x03\x0a\x01v\x4a\x08\x0a\x01n\x12\x03\x18\xac\x02", 20);
  const std::string status("\x7a\x02\x18\x02", 4);
  const std::string body = trace + ids + name + times + pairs + status;
  const std::string scope("\x0a\x08\x0a\x06sluice", 10);
  const std::string spans = scope + "\x12" + static_cast<char>(body.size()) + body;
  const std::string resource("\x0a\x16\x0a\x14\x0a\x0cservice.name\x12\x04\x0a\x02me", 24);
  const auto length = [](size_t size) {  // Below 128 squared.
    return size < 128 ? std::string(1, static_cast<char>(size))
                      : std::string{static_cast<char>(size | 0x80), static_cast<char>(size >> 7)};
  };
  const std::string inner = resource + "\x12" + length(spans.size()) + spans;
  EXPECT_EQ(batch_.take(pool_, "me").to_string(), "\x0a" + length(inner.size()) + inner);
  EXPECT_EQ(batch_.count(), 0u);
  EXPECT_EQ(batch_.bytes(), 0u);
}

TEST_F(OtlpBatchTest, LongTextsAreCut) {
  const std::string text(5000, 'x');
  const std::array attributes{OtlpAttribute::of("k", text)};
  Span one = span();
  one.attributes = attributes;
  ASSERT_TRUE(batch_.add(pool_, one));
  EXPECT_GT(batch_.bytes(), kMaxOtlpText);
  EXPECT_LT(batch_.bytes(), kMaxOtlpText + 200);
}

TEST_F(OtlpBatchTest, TooLarge) {
  const std::string text(kMaxOtlpText, 'x');
  std::array<OtlpAttribute, 30> attributes;
  attributes.fill(OtlpAttribute::of("k", text));
  Span one = span();
  one.attributes = attributes;
  EXPECT_FALSE(batch_.add(pool_, one));
  EXPECT_EQ(batch_.count(), 0u);
  EXPECT_TRUE(batch_.add(pool_, span()));
}

// By the numbers of opentelemetry-proto 1.x. (test/e2e/otlp_log_test.py decodes records with its own classes.)
TEST_F(OtlpBatchTest, BytesOfALog) {
  const std::array attributes{OtlpAttribute::of("k", "v"), OtlpAttribute::of("empty", ""),
                              OtlpAttribute::of_number("n", 0)};
  ASSERT_TRUE(batch_.add(pool_, OtlpLog{.time_ns = 1,
                                        .observed_ns = 2,
                                        .severity = OtlpLog::Severity::kError,
                                        .body = "line",
                                        .attributes = attributes,
                                        .trace_id = "0af7651916cd43dd8448eb211c80319c",
                                        .span_id = "b7ad6b7169203331"}));
  const std::string time("\x09\x01\0\0\0\0\0\0\0", 9);
  const std::string severity(
      "\x10\x11\x1a\x05"
      "ERROR");
  const std::string line("\x2a\x06\x0a\x04line");
  const std::string pairs("\x32\x08\x0a\x01k\x12\x03\x0a\x01v\x32\x07\x0a\x01n\x12\x02\x18\0", 19);
  const std::string flags("\x45\x01\0\0\0", 5);
  const std::string trace("\x4a\x10\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c", 18);
  const std::string span("\x52\x08\xb7\xad\x6b\x71\x69\x20\x33\x31", 10);
  const std::string observed("\x59\x02\0\0\0\0\0\0\0", 9);
  const std::string record = time + severity + line + pairs + flags + trace + span + observed;
  const std::string body = batch_.take(pool_, "me").to_string();
  EXPECT_TRUE(body.ends_with("\x12" + std::string(1, static_cast<char>(record.size())) + record));
}

// Without a trace there are no ids, and no flags.
TEST_F(OtlpBatchTest, BytesOfALogWithoutATrace) {
  ASSERT_TRUE(batch_.add(pool_, OtlpLog{.time_ns = 1, .observed_ns = 2, .body = "x"}));
  const std::string record("\x09\x01\0\0\0\0\0\0\0\x10\x09\x1a\x04INFO\x2a\x03\x0a\x01x\x59\x02\0\0\0\0\0\0\0", 31);
  EXPECT_TRUE(batch_.take(pool_, "me").to_string().ends_with("\x12\x1f" + record));
}

// A receiver may refuse all records of a request for one text that is not UTF-8.
TEST_F(OtlpBatchTest, TextsAreUtf8) {
  std::array<char, 8> room;
  EXPECT_EQ(valid_text("plain", room), "plain");
  EXPECT_EQ(valid_text("longer than it", room), "longer t");
  EXPECT_EQ(valid_text("\xc3\xa4", room), "\xc3\xa4");
  EXPECT_EQ(valid_text("a\xff\xc3", room), "a\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(valid_text("1234567\xc3\xa4", room), "1234567");  // Not cut within a character.
  EXPECT_EQ(valid_text("", room), "");
}

TEST_F(OtlpBatchTest, Clear) {
  ASSERT_TRUE(batch_.add(pool_, span()));
  batch_.clear();
  EXPECT_EQ(batch_.count(), 0u);
  EXPECT_EQ(batch_.bytes(), 0u);
}

}  // namespace
}  // namespace sluice
