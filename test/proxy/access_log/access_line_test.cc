#include "proxy/access_log/access_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "sluice/internal/check.h"
#include "test/proxy/http/h2/allocations.h"

namespace sluice {
namespace {

using testing::HasSubstr;

std::string line_of(const AccessRecord& record) {
  std::string out(kMaxLogLineBytes, '?');
  out.resize(format_default_line(record, out));
  return out;
}

// The example of docs/guides/access-log.md.
const AccessRecord kExample = {.time_ms = 1'785'499'932'418,
                               .client = "203.0.113.7",
                               .listener = "edge",
                               .protocol = "HTTP/2",
                               .tls = "TLSv1.3",
                               .method = "GET",
                               .authority = "api.example.com",
                               .path = "/v1/items?page=2",
                               .status = 200,
                               .reason = "ok",
                               .request_bytes = 0,
                               .response_bytes = 5120,
                               .duration_us = 1834,
                               .upstream_us = 1702,
                               .upstream = "api",
                               .endpoint = "10.0.0.4:9000",
                               .user_agent = "curl/8.9.1"};

// A line split into its fields, as the document describes it: by spaces, with the user agent last.
constexpr size_t kFieldCount = 17;
enum Field { kTime, kMethod, kPath, kProtocol, kStatus, kReason, kIn, kOut, kDuration, kUpstreamTime, kClient };
enum MoreFields { kListener = 11, kTls, kUpstream, kEndpoint, kAuthority, kUserAgent };
using Fields = std::array<std::string, kFieldCount>;

bool strip(std::string& text, std::string_view before, std::string_view after) {
  if (!text.starts_with(before) || !text.ends_with(after) || text.size() < before.size() + after.size()) return false;
  text = text.substr(before.size(), text.size() - before.size() - after.size());
  return true;
}

testing::AssertionResult parse(std::string line, Fields& fields) {
  if (line.empty() || line.find('\n') != line.size() - 1) return testing::AssertionFailure() << "not one line";
  line.pop_back();
  for (size_t i = 0; i + 1 < kFieldCount; ++i) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) return testing::AssertionFailure() << "no field after " << i;
    fields[i] = line.substr(0, space);
    line.erase(0, space + 1);
  }
  fields[kUserAgent] = line;
  const bool quoted = strip(fields[kTime], "[", "]") && strip(fields[kMethod], "\"", "") &&
                      strip(fields[kProtocol], "", "\"") && strip(fields[kAuthority], "\"", "\"") &&
                      strip(fields[kUserAgent], "\"", "\"");
  if (!quoted) return testing::AssertionFailure() << "not quoted as it should be";
  for (const std::string& field : fields) {
    if (field.empty()) return testing::AssertionFailure() << "an empty field";
    for (size_t i = 0; i < field.size(); ++i) {
      const char c = field[i];
      if (c < ' ' || c > '~' || c == '"') return testing::AssertionFailure() << "a raw byte " << int{c};
      if (c != '\\') continue;
      constexpr std::string_view kHex = "0123456789ABCDEF";
      if (i + 3 >= field.size() || field[i + 1] != 'x' || kHex.find(field[i + 2]) == kHex.npos ||
          kHex.find(field[i + 3]) == kHex.npos) {
        return testing::AssertionFailure() << "half an escape in " << field;
      }
    }
  }
  return testing::AssertionSuccess();
}

std::string unescaped(const std::string& field) {
  std::string out;
  for (size_t i = 0; i < field.size(); ++i) {
    if (field[i] != '\\') {
      out += field[i];
    } else {
      out += static_cast<char>(std::stoi(field.substr(i + 2, 2), nullptr, 16));
      i += 3;
    }
  }
  return out;
}

// Whether `field` is `text`, or as much of it as fits into `max` bytes.
testing::AssertionResult is_prefix_of(const std::string& field, std::string_view text, size_t max) {
  if (text.empty()) text = "-";
  const std::string back = unescaped(field);
  if (back == text && field.size() <= max) return testing::AssertionSuccess();
  const std::string shown = back.substr(0, back.size() - std::min<size_t>(back.size(), 3));
  if (!field.ends_with("...") || field.size() > max || field.size() + 3 < max || !text.starts_with(shown)) {
    return testing::AssertionFailure() << field << " of " << field.size() << " bytes for " << text.size();
  }
  return testing::AssertionSuccess();
}

TEST(AccessLine, HasAllValues) {
  EXPECT_EQ(line_of(kExample),
            "[2026-07-31T12:12:12.418Z] \"GET /v1/items?page=2 HTTP/2\" 200 ok 0 5120 1834 1702 203.0.113.7 edge "
            "TLSv1.3 api 10.0.0.4:9000 \"api.example.com\" \"curl/8.9.1\"\n");
}

// The example of docs/guides/access-log.md.
TEST(AccessLine, Connection) {
  const std::string line = line_of({.kind = AccessRecord::Kind::kConnection,
                                    .time_ms = 1'785'499'932'418,
                                    .client = "203.0.113.7",
                                    .listener = "db",
                                    .protocol = "TCP",
                                    .tls = "TLSv1.3",
                                    .server_name = "db.example.com",
                                    .reason = "finished",
                                    .request_bytes = 7,
                                    .response_bytes = 5120,
                                    .duration_us = 183'400,
                                    .upstream_us = 702,
                                    .upstream = "db",
                                    .endpoint = "10.0.0.4:5432"});
  EXPECT_EQ(
      line,
      "[2026-07-31T12:12:12.418Z] \"- - TCP\" 0 finished 7 5120 183400 702 203.0.113.7 db TLSv1.3 db 10.0.0.4:5432 "
      "\"db.example.com\" \"-\"\n");
  std::ifstream file(SLUICE_SOURCE_DIR "/docs/guides/access-log.md");
  std::stringstream document;
  document << file.rdbuf();
  EXPECT_THAT(document.str(), HasSubstr("    " + line));
  Fields fields;
  EXPECT_TRUE(parse(line, fields));
}

TEST(AccessLine, MissingValuesAreDashes) {
  EXPECT_EQ(line_of({}), "[1970-01-01T00:00:00.000Z] \"- - -\" 0 - 0 0 0 - - - - - - \"-\" \"-\"\n");
  Fields fields;
  EXPECT_TRUE(parse(line_of({}), fields));
}

TEST(AccessLine, LargestNumbers) {
  AccessRecord record = kExample;
  record.status = UINT16_MAX;
  record.request_bytes = record.response_bytes = record.duration_us = UINT64_MAX;
  record.upstream_us = UINT64_MAX;
  Fields fields;
  ASSERT_TRUE(parse(line_of(record), fields));
  EXPECT_EQ(fields[kStatus], "65535");
  for (const size_t i : {kIn, kOut, kDuration, kUpstreamTime}) EXPECT_EQ(fields[i], "18446744073709551615");
}

TEST(AccessLine, ValuesCannotAddFields) {
  AccessRecord record = kExample;
  record.path = "/\" 200 ok\n[2026-01-01T00:00:00.000Z] \"GET /forged HTTP/1.1\"";
  record.user_agent = "a \"b\" \\ c\r\n\t\x1b[31m\x7f\xc3\xa9";
  record.authority = "a b\"c";
  record.method = "GE\"T";
  const std::string line = line_of(record);
  Fields fields;
  ASSERT_TRUE(parse(line, fields));
  EXPECT_EQ(fields[kPath],
            "/\\x22\\x20200\\x20ok\\x0A[2026-01-01T00:00:00.000Z]\\x20\\x22GET\\x20/forged\\x20HTTP/1.1\\x22");
  EXPECT_EQ(fields[kUserAgent], "a \\x22b\\x22 \\x5C c\\x0D\\x0A\\x09\\x1B[31m\\x7F\\xC3\\xA9");
  EXPECT_EQ(fields[kAuthority], "a\\x20b\\x22c");
  EXPECT_EQ(fields[kMethod], "GE\\x22T");
}

TEST(AccessLine, EveryByteAtEveryPositionOfAWord) {
  for (int byte = 0; byte < 256; ++byte) {
    for (size_t place = 0; place < 20; ++place) {
      std::string text(20, 'a');
      text[place] = static_cast<char>(byte);
      AccessRecord record;
      record.path = record.user_agent = text;
      Fields fields;
      ASSERT_TRUE(parse(line_of(record), fields)) << byte << " at " << place;
      ASSERT_EQ(unescaped(fields[kPath]), text);
      ASSERT_EQ(unescaped(fields[kUserAgent]), text);
      const bool plain = byte > 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
      ASSERT_EQ(fields[kPath].size(), plain ? 20u : 23u) << byte;
      ASSERT_EQ(fields[kUserAgent].size(), plain || byte == ' ' ? 20u : 23u) << byte;
    }
  }
}

TEST(AccessLine, CutsAtAnEscape) {
  AccessRecord record;
  for (size_t over = 0; over < 12; ++over) {
    const std::string plain(1024 - 6 + over, 'x');
    const std::string text = plain + "\x01";  // Four bytes more.
    record.user_agent = text;
    Fields fields;
    ASSERT_TRUE(parse(line_of(record), fields));
    EXPECT_TRUE(is_prefix_of(fields[kUserAgent], text, 1024)) << over;
    EXPECT_EQ(fields[kUserAgent].ends_with("..."), plain.size() + 4 > 1024) << over;
  }
}

TEST(AccessLine, LongestLine) {
  const std::string text(100'000, '\n');
  AccessRecord record = {.client = text,
                         .listener = text,
                         .protocol = text,
                         .tls = text,
                         .method = text,
                         .authority = text,
                         .path = text,
                         .reason = text,
                         .upstream = text,
                         .endpoint = text,
                         .user_agent = text};
  record.request_bytes = record.response_bytes = record.duration_us = UINT64_MAX;
  record.upstream_us = UINT64_MAX;
  const std::string line = line_of(record);
  EXPECT_LE(line.size(), kMaxLogLineBytes);
  Fields fields;
  ASSERT_TRUE(parse(line, fields));
  EXPECT_TRUE(is_prefix_of(fields[kPath], text, 4096));
  EXPECT_TRUE(is_prefix_of(fields[kUserAgent], text, 1024));
  EXPECT_TRUE(is_prefix_of(fields[kAuthority], text, 512));
  for (const size_t i : {size_t{kClient}, size_t{kListener}, size_t{kUpstream}, size_t{kEndpoint}}) {
    EXPECT_TRUE(is_prefix_of(fields[i], text, 160));
  }
}

// Any record makes one line that can be parsed.
TEST(AccessLine, RandomRecordsCanBeParsed) {
  std::mt19937_64 random(20260731);
  const auto below = [&](uint64_t end) { return random() % end; };
  const auto random_text = [&](size_t max) {
    static constexpr std::string_view kNasty = "\n\r\"\\ \t\0[]x-.\x7f\x80\xff";
    const uint64_t shape = below(16);
    const size_t length = shape == 0   ? 0
                          : shape < 12 ? below(40)
                          : shape < 15 ? max - std::min<size_t>(max, 8) + below(16)
                                       : below(20'000);
    const uint64_t special = below(4);  // The number of special characters among three.
    std::string text(length, 'a');
    for (char& c : text) {
      if (below(3) < special) {
        c = below(2) != 0 ? kNasty[below(kNasty.size())] : static_cast<char>(below(256));
      } else {
        c = static_cast<char>('a' + below(26));
      }
    }
    return text;
  };
  for (int round = 0; round < (kDebugChecks ? 500 : 5'000); ++round) {
    constexpr std::array<size_t, 11> kMax = {32, 4096, 32, 32, 160, 160, 32, 160, 160, 512, 1024};
    constexpr std::array<size_t, 11> kPlace = {kMethod, kPath,     kProtocol, kReason,    kClient,   kListener,
                                               kTls,    kUpstream, kEndpoint, kAuthority, kUserAgent};
    std::array<std::string, 11> texts;
    for (size_t i = 0; i < texts.size(); ++i) texts[i] = random_text(kMax[i]);
    AccessRecord record;
    std::string_view* const views[] = {&record.method,   &record.path,      &record.protocol,  &record.reason,
                                       &record.client,   &record.listener,  &record.tls,       &record.upstream,
                                       &record.endpoint, &record.authority, &record.user_agent};
    for (size_t i = 0; i < texts.size(); ++i) *views[i] = texts[i];
    record.time_ms = static_cast<int64_t>(random());
    record.status = static_cast<uint16_t>(random());
    record.request_bytes = random() >> below(64);
    record.response_bytes = random() >> below(64);
    record.duration_us = random() >> below(64);
    if (below(2) != 0) record.upstream_us = random() >> below(64);

    const std::string line = line_of(record);
    ASSERT_LE(line.size(), kMaxLogLineBytes);
    Fields fields;
    ASSERT_TRUE(parse(line, fields)) << line;
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_TRUE(is_prefix_of(fields[kPlace[i]], texts[i], kMax[i])) << line;
    }
    ASSERT_EQ(fields[kTime].size(), 24u);
    ASSERT_EQ(fields[kStatus], std::to_string(record.status));
    ASSERT_EQ(fields[kIn], std::to_string(record.request_bytes));
    ASSERT_EQ(fields[kOut], std::to_string(record.response_bytes));
    ASSERT_EQ(fields[kDuration], std::to_string(record.duration_us));
    ASSERT_EQ(fields[kUpstreamTime], record.upstream_us ? std::to_string(*record.upstream_us) : "-");
  }
}

TEST(AccessLine, Times) {
  const auto time_of = [](int64_t ms) { return line_of({.time_ms = ms}).substr(1, 24); };
  EXPECT_EQ(time_of(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(time_of(999), "1970-01-01T00:00:00.999Z");
  EXPECT_EQ(time_of(1000), "1970-01-01T00:00:01.000Z");
  EXPECT_EQ(time_of(951'868'799'999), "2000-02-29T23:59:59.999Z");
  EXPECT_EQ(time_of(951'868'800'000), "2000-03-01T00:00:00.000Z");
  EXPECT_EQ(time_of(4'107'542'399'000), "2100-02-28T23:59:59.000Z");
  EXPECT_EQ(time_of(4'107'542'400'000), "2100-03-01T00:00:00.000Z");
  EXPECT_EQ(time_of(253'402'300'799'999), "9999-12-31T23:59:59.999Z");
  // A number that is not a valid time keeps the format.
  EXPECT_EQ(time_of(253'402'300'800'000), "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(time_of(INT64_MAX), "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(time_of(-1), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(time_of(INT64_MIN), "1970-01-01T00:00:00.000Z");
}

TEST(AccessLine, TimesAgreeWithTheLibrary) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto ms = static_cast<int64_t>(random() % 253'402'300'800'000);
    const time_t seconds = ms / 1000;
    tm parts;
    gmtime_r(&seconds, &parts);
    char text[64];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    char whole[80];
    std::snprintf(whole, sizeof whole, "[%s.%03dZ]", text, static_cast<int>(ms % 1000));
    // Once computed from the calendar, and once from the cache.
    for (int again = 0; again < 2; ++again) ASSERT_EQ(line_of({.time_ms = ms}).substr(0, 26), whole);
  }
}

std::string document() {
  std::ifstream file(SLUICE_SOURCE_DIR "/docs/guides/access-log.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(AccessLogDocument, ShowsTheExample) { EXPECT_THAT(document(), HasSubstr(line_of(kExample))); }

// Each shell command in the document that begins with awk, on a small log.
TEST(AccessLogDocument, CommandsWork) {
  if (std::system("command -v awk sort uniq >/dev/null") != 0) GTEST_SKIP() << "needs awk, sort and uniq";
  const std::string log = testing::TempDir() + "access_line_document." + std::to_string(getpid());
  {
    std::ofstream out(log);
    AccessRecord record = kExample;
    record.user_agent = "Mozilla/5.0 (X11; Linux) with \"spaces\"";
    for (int i = 0; i < 4; ++i) out << line_of(record);
    record.status = 503, record.reason = "no_endpoint", record.path = "/v1/a b", record.duration_us = 1'500'000;
    record.upstream_us.reset(), record.endpoint = {};
    out << line_of(record);
  }
  std::vector<std::string> outputs;
  std::stringstream lines(document());
  for (std::string line; std::getline(lines, line);) {
    const size_t start = line.find_first_not_of(' ');
    if (start == std::string::npos || line.compare(start, 4, "awk ") != 0) continue;
    std::string command = line.substr(start);
    command = command.substr(0, command.find("   #"));
    const size_t name = command.find("access.log");
    ASSERT_NE(name, std::string::npos) << command;
    command.replace(name, std::string_view("access.log").size(), log);
    FILE* const pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string output(4096, '\0');
    output.resize(std::fread(output.data(), 1, output.size(), pipe));
    EXPECT_EQ(pclose(pipe), 0) << command;
    outputs.push_back(output);
  }
  std::remove(log.c_str());
  EXPECT_THAT(outputs,
              testing::ElementsAre("/v1/a\\x20b 503 no_endpoint\n", "api 0.001702 4\n", "/v1/a\\x20b 1500000\n"));
}

TEST(AccessLineCost, AllocatesNothing) {
  std::array<char, kMaxLogLineBytes> out;
  AccessRecord record = kExample;
  const uint64_t before = test::allocations;
  for (int i = 0; i < 500; ++i) {
    record.time_ms += i % 64 == 0;
    record.duration_us = static_cast<uint64_t>(i);
    ASSERT_GT(format_default_line(record, out), 0u);
  }
  EXPECT_EQ(test::allocations - before, 0u);
}

}  // namespace
}  // namespace sluice
