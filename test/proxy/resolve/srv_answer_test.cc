#include "proxy/resolve/srv_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/resolve/lookup.h"
#include "proxy/resolve/refresh_times.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Builds a message.
class Message {
 public:
  explicit Message(uint16_t answers, uint16_t questions = 1) {
    u16(0x1234).u16(0x8180).u16(questions).u16(answers).u16(0).u16(0);
    for (uint16_t i = 0; i < questions; ++i) name("_http._tcp.test").u16(33).u16(1);
  }
  Message& u16(unsigned value) {
    bytes_.push_back(static_cast<uint8_t>(value >> 8));
    bytes_.push_back(static_cast<uint8_t>(value));
    return *this;
  }
  Message& u32(uint32_t value) { return u16(value >> 16).u16(value & 0xffff); }
  Message& name(std::string_view text) {
    while (!text.empty()) {
      const size_t size = std::min(text.find('.'), text.size());
      bytes_.push_back(static_cast<uint8_t>(size));
      bytes_.insert(bytes_.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size));
      text.remove_prefix(std::min(size + 1, text.size()));
    }
    bytes_.push_back(0);
    return *this;
  }
  /// The question's name, compressed.
  Message& question_name() { return u16(0xc00c); }
  Message& srv(uint16_t priority, uint16_t weight, uint16_t port, std::string_view target, uint32_t ttl_s = 60) {
    question_name().u16(33).u16(1).u32(ttl_s);
    const size_t at = bytes_.size();
    u16(0).u16(priority).u16(weight).u16(port).name(target);
    const size_t size = bytes_.size() - at - 2;
    bytes_[at] = static_cast<uint8_t>(size >> 8);
    bytes_[at + 1] = static_cast<uint8_t>(size);
    return *this;
  }
  std::vector<uint8_t>& bytes() { return bytes_; }
  std::optional<SrvAnswer> parse() const { return parse_srv_answer(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

TEST(SrvAnswerTest, Records) {
  const auto answer = Message(2).srv(1, 2, 8080, "a.test", 60).srv(0, 0, 80, "b.test", 30).parse();
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->records, ElementsAre(SrvRecord{1, 2, 8080, "a.test"}, SrvRecord{0, 0, 80, "b.test"}));
  EXPECT_EQ(answer->ttl_s, 30u);
}

// An alias leads to another name with these records; its TTL counts too.
TEST(SrvAnswerTest, Aliases) {
  Message message(2);
  message.question_name().u16(5).u16(1).u32(7).u16(2).u16(0xc00c);
  const auto answer = message.srv(1, 1, 80, "a.test").parse();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->records.size(), 1u);
  EXPECT_EQ(answer->ttl_s, 7u);
}

// RFC 2782: a target of "." says that the service is not available.
TEST(SrvAnswerTest, NoSuchService) {
  const auto answer = Message(1).srv(0, 0, 0, "").parse();
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->records, IsEmpty());
  EXPECT_TRUE(Message(0).parse());
  EXPECT_EQ(Message(0).parse()->ttl_s, 0u);
}

// RFC 2181 section 8.
TEST(SrvAnswerTest, TtlWithTheHighestBitIsZero) {
  EXPECT_EQ(Message(1).srv(0, 0, 80, "a.test", 0x80000000U).parse()->ttl_s, 0u);
}

TEST(SrvAnswerTest, EveryTruncationIsMalformed) {
  const std::vector<uint8_t> whole = Message(2).srv(1, 2, 8080, "a.test").srv(0, 0, 80, "b.test").bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse_srv_answer(std::span(whole).first(size))) << size;
  }
}

TEST(SrvAnswerTest, Malformed) {
  // A record longer or shorter than its content,
  Message longer(1);
  longer.srv(1, 2, 8080, "a.test");
  longer.bytes().push_back(0);
  ++longer.bytes()[longer.bytes().size() - 1 - 8 - 6 - 1];  // The low byte of its length.
  EXPECT_FALSE(longer.parse());
  Message shorter(1);
  shorter.question_name().u16(33).u16(1).u32(1).u16(6).u16(1).u16(1).u16(1);
  EXPECT_FALSE(shorter.parse());
  // and a name that points to itself.
  Message loop(1);
  loop.question_name().u16(33).u16(1).u32(1).u16(8).u16(1).u16(1).u16(1);
  loop.u16(0xc000 | static_cast<unsigned>(loop.bytes().size()));
  EXPECT_FALSE(loop.parse());
}

TEST(SrvAnswerTest, PrioritiesAndWeightsAreClamped) {
  std::vector<SrvRecord> records = {{20, 5, 1, "c"}, {10, 0, 1, "a"}, {20, 0, 1, "d"}, {10, 65535, 1, "b"}};
  fit_service(records, 3);
  EXPECT_THAT(records, ElementsAre(SrvRecord{3, 65535, 1, "b"}, SrvRecord{3, 1, 1, "a"}, SrvRecord{4, 5, 1, "c"},
                                   SrvRecord{4, 1, 1, "d"}));
  std::vector<SrvRecord> many;
  for (uint16_t i = 0; i < 20; ++i) many.push_back({i, 1, 1, "x"});
  fit_service(many, 0);
  EXPECT_EQ(many.back().priority, 15);
}

TEST(RefreshTimesTest, WithinTheBounds) {
  RefreshTimes times({.min_ttl = std::chrono::seconds(2), .max_ttl = std::chrono::seconds(60)});
  EXPECT_EQ(times.after_answer_ms(1), 2000u);
  EXPECT_EQ(times.after_answer_ms(30), 30'000u);
  EXPECT_EQ(times.after_answer_ms(0xffffffffU), 60'000u);
  EXPECT_EQ(times.after_answer_ms(0), 5000u);  // Unknown.
  RefreshTimes slow({.min_ttl = std::chrono::seconds(10), .max_ttl = std::chrono::seconds(60)});
  EXPECT_EQ(slow.after_answer_ms(0), 10'000u);
}

TEST(RefreshTimesTest, FailuresBackOff) {
  RefreshTimes times({.min_ttl = std::chrono::seconds(1), .max_ttl = std::chrono::seconds(3)});
  std::vector<uint64_t> pauses;
  for (int i = 0; i < 40; ++i) pauses.push_back(times.after_failure_ms());
  EXPECT_THAT(std::vector(pauses.begin(), pauses.begin() + 4), ElementsAre(500, 1000, 2000, 3000));
  EXPECT_EQ(pauses.back(), 3000u);
  EXPECT_EQ(times.fails_in_a_row(), 40u);
  (void)times.after_answer_ms(1);
  EXPECT_EQ(times.after_failure_ms(), 500u);
}

}  // namespace
}  // namespace sluice
