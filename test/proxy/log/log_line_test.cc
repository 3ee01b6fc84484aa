#include "proxy/log/log_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "proxy/common/json.h"

namespace sluice {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr int64_t kTime = 1'000;  // 1970-01-01T00:00:01.000Z

std::string text_of(std::string_view text) {
  return format_log_line(LogRecord(kTime, LogLevel::kInfo, text, {}), LogStyle::kText, LogFraming::kPlain);
}

TEST(LogLine, Text) {
  EXPECT_EQ(text_of("all is well"), "1970-01-01T00:00:01.000Z info sluice: all is well\n");
  EXPECT_EQ(format_log_line(LogRecord(kTime, LogLevel::kDebug, "x", {}), LogStyle::kText, LogFraming::kPlain),
            "1970-01-01T00:00:01.000Z debug sluice: x\n");
}

// A peer chooses names, certificates and header fields.
TEST(LogLine, TextEscapesWhatForgesLinesOrControlsTerminals) {
  EXPECT_THAT(text_of("a\r\nb\t\x1b[2J\x7f"), EndsWith(": a\\x0D\\x0Ab\\x09\\x1B[2J\\x7F\n"));
  EXPECT_THAT(text_of(std::string("a\0b", 3)), EndsWith(": a\\x00b\n"));
  EXPECT_THAT(text_of("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa2"),
              EndsWith(": caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa2\n"));
  // U+009B begins a sequence of control as ESC [ does. U+2028 separates lines.
  EXPECT_THAT(text_of("\xc2\x9b"
                      "2J\xe2\x80\xa8\xc2\xa0"),
              EndsWith(": \\xC2\\x9B2J\\xE2\\x80\\xA8\xc2\xa0\n"));
  // No UTF-8: alone, cut, too long a form, a surrogate.
  EXPECT_THAT(text_of("\x9b \xe2\x82 \xc0\x8a \xed\xa0\x80"),
              EndsWith(": \\x9B \\xE2\\x82 \\xC0\\x8A \\xED\\xA0\\x80\n"));
}

TEST(LogLine, IsBounded) {
  for (const std::string& unit :
       {std::string("a"), std::string("\n"), std::string("\xe2\x82\xac"), std::string("\"")}) {
    std::string text;
    for (int i = 0; i < 10'000; ++i) text += unit;
    const LogRecord record(kTime, LogLevel::kError, text,
                           {.listener = text, .client = text, .upstream = text, .endpoint = text, .reason = text});
    EXPECT_LT(record.bytes(), 10'000u);
    for (const LogStyle style : {LogStyle::kText, LogStyle::kJson}) {
      for (const LogFraming framing : {LogFraming::kPlain, LogFraming::kJournal, LogFraming::kSyslog}) {
        const std::string line = format_log_line(record, style, framing);
        EXPECT_LE(line.size(), kMaxRunLogLineBytes + (framing == LogFraming::kSyslog ? 400 : 0));
        EXPECT_THAT(line, HasSubstr("..."));
        EXPECT_EQ(line.find('\n'), line.size() - 1);
      }
      JsonText json;
      if (style == LogStyle::kJson) {
        EXPECT_TRUE(json.read(format_log_line(record, style, LogFraming::kPlain))) << json.error();
      }
    }
  }
}

TEST(LogLine, Json) {
  const LogRecord record(kTime, LogLevel::kWarning, "endpoint is \"down\"\nreally \xff",
                         {.upstream = "app", .endpoint = "10.0.0.1:80", .reason = "refused"});
  const std::string line = format_log_line(record, LogStyle::kJson, LogFraming::kPlain);
  EXPECT_EQ(line, "{\"ts\":\"1970-01-01T00:00:01.000Z\",\"level\":\"warning\",\"pid\":" + std::to_string(getpid()) +
                      ",\"message\":\"endpoint is \\\"down\\\"\\u000Areally \xef\xbf\xbd\",\"upstream\":\"app\","
                      "\"endpoint\":\"10.0.0.1:80\",\"reason\":\"refused\"}\n");
  JsonText json;
  ASSERT_TRUE(json.read(line)) << json.error();
  EXPECT_EQ(json.member(json.root(), "message")->text, "endpoint is \"down\"\nreally \xef\xbf\xbd");
  EXPECT_EQ(json.member(json.root(), "listener"), nullptr);
}

TEST(LogLine, PrioritiesOfSyslogAndTheJournal) {
  const std::pair<LogLevel, const char*> levels[] = {
      {LogLevel::kError, "3"}, {LogLevel::kWarning, "4"}, {LogLevel::kInfo, "6"}, {LogLevel::kDebug, "7"}};
  for (const auto& [level, priority] : levels) {
    const LogRecord record(kTime, level, "x", {});
    EXPECT_EQ(format_log_line(record, LogStyle::kText, LogFraming::kJournal), "<" + std::string(priority) + ">x\n");
    // The facility is daemon.
    EXPECT_THAT(
        format_log_line(record, LogStyle::kText, LogFraming::kSyslog),
        testing::MatchesRegex("<" + std::to_string(24 + std::stoi(priority)) +
                              ">1 1970-01-01T00:00:01\\.000Z [!-~]+ sluice " + std::to_string(getpid()) + " - - x\n"));
  }
}

}  // namespace
}  // namespace sluice
