#include "proxy/log/recent_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "proxy/log/run_log.h"

namespace sluice {
namespace {

LogRecord record(LogLevel level, std::string_view text, const LogFields& fields = {}) {
  return LogRecord(1'700'000'000'123, level, text, fields);
}

TEST(RecentLines, KeepsTheLastWarningsAndErrors) {
  RecentLines recent;
  EXPECT_TRUE(recent.lines().empty());
  recent.add(record(LogLevel::kInfo, "fine"));
  recent.add(record(LogLevel::kDebug, "more"));
  EXPECT_TRUE(recent.lines().empty());
  recent.add(record(LogLevel::kWarning, "first", {.upstream = "app", .endpoint = "10.0.0.1:80", .reason = "refused"}));
  EXPECT_EQ(recent.lines()[0].last.upstream, "app");
  EXPECT_EQ(recent.lines()[0].last.endpoint, "10.0.0.1:80");
  EXPECT_EQ(recent.lines()[0].last.reason, "refused");
  EXPECT_EQ(recent.lines()[0].last.time_ms, 1'700'000'000'123);
  for (size_t i = 0; i < RecentLines::kLines + 7; ++i) recent.add(record(LogLevel::kError, absl::StrCat(i)));
  const std::vector<RecentLines::Line> lines = recent.lines();
  ASSERT_EQ(lines.size(), RecentLines::kLines);
  EXPECT_EQ(lines.front().last.text, absl::StrCat(RecentLines::kLines + 6));
  EXPECT_EQ(lines.back().last.text, "7");
}

// What fails all the time has one place.
TEST(RecentLines, LinesOfAKindShareAPlace) {
  RecentLines recent;
  recent.add(record(LogLevel::kError, "reload: refused"));
  const LogFields refused{.upstream = "app", .endpoint = "10.0.0.1:80", .reason = "refused"};
  for (size_t i = 0; i < 1000; ++i) {
    LogRecord line = record(LogLevel::kWarning, absl::StrCat("failed, ", i, " in a row"), refused);
    line.time_ms += static_cast<int64_t>(i);
    line.client = absl::StrCat("10.9.0.", i);
    recent.add(line);
  }
  recent.add(record(LogLevel::kWarning, "failed", {.upstream = "app", .endpoint = "10.0.0.2:80", .reason = "refused"}));
  recent.add(record(LogLevel::kWarning, "failed", {.upstream = "app", .endpoint = "10.0.0.1:80", .reason = "timeout"}));
  recent.add(record(LogLevel::kError, "reload: refused"));
  recent.add(record(LogLevel::kWarning, "failed, 2 in a row; ejected", refused));
  recent.add(record(LogLevel::kError, "line 1: refused"));
  recent.add(record(LogLevel::kError, "line 2: refused"));
  recent.add(record(LogLevel::kWarning, "reload: refused"));
  const std::vector<RecentLines::Line> lines = recent.lines();
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[4].last.text, "reload: refused");
  EXPECT_EQ(lines[4].times, 2u);
  EXPECT_EQ(lines[7].times, 1000u);
  EXPECT_EQ(lines[7].last.text, "failed, 999 in a row");
  EXPECT_EQ(lines[7].last.client, "10.9.0.999");
  EXPECT_EQ(lines[7].last.time_ms - lines[7].first_ms, 999);
}

TEST(RecentLines, CutsBetweenCharacters) {
  RecentLines recent;
  recent.add(record(LogLevel::kError, std::string(RecentLines::kTextBytes, 'x')));
  EXPECT_EQ(recent.lines()[0].last.text, std::string(RecentLines::kTextBytes, 'x'));
  for (const size_t before : {0, 1}) {
    std::string text(before, 'x');
    while (text.size() < 2 * RecentLines::kTextBytes) text += "\u00e9";
    recent.add(record(LogLevel::kError, text));
    const std::string kept = recent.lines()[0].last.text;
    EXPECT_LE(kept.size(), RecentLines::kTextBytes);
    EXPECT_GE(kept.size(), RecentLines::kTextBytes - 1);
    EXPECT_THAT(kept, testing::EndsWith("\u00e9..."));
  }
  recent.add(record(LogLevel::kError, std::string(2 * RecentLines::kTextBytes, '\x80')));
  EXPECT_EQ(recent.lines()[0].last.text.size(), RecentLines::kTextBytes - 3) << "no character begins";
}

// With a line that the log itself cannot write.
TEST(RecentLines, OfALog) {
  RunLog log(-1, -1);
  log.line(LogLevel::kInfo, "begins");
  log.line(LogLevel::kWarning, "a warning");
  log.configure(LogLevel::kError, LogStyle::kText, nullptr);
  log.line(LogLevel::kWarning, "not logged");
  log.line(LogLevel::kError, "an error");
  const std::vector<RecentLines::Line> lines = log.recent().lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].last.text, "an error");
  EXPECT_EQ(lines[1].last.text, "a warning");
  EXPECT_EQ(log.lines(LogLevel::kWarning), 1u);
}

}  // namespace
}  // namespace sluice
