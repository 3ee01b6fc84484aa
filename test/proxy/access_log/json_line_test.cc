#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/access_log/access_line.h"

namespace sluice {
namespace {

using testing::HasSubstr;

std::string line_of(const AccessRecord& record) {
  std::string out(kMaxLogLineBytes, '?');
  out.resize(format_json_line(record, out));
  return out;
}

// The user agent as it is in the line.
std::string json_of(std::string_view user_agent) {
  std::string line = line_of({.user_agent = user_agent});
  constexpr std::string_view kBefore = "\"user_agent\":\"", kAfter = "\"}\n";
  const size_t at = line.find(kBefore);
  EXPECT_TRUE(at != std::string::npos && line.ends_with(kAfter)) << line;
  if (at == std::string::npos) return line;
  line = line.substr(at + kBefore.size());
  return line.substr(0, line.size() - kAfter.size());
}

TEST(JsonLine, WritesNumbersOfEachLength) {
  for (const uint64_t number : {uint64_t{0}, uint64_t{9}, uint64_t{10}, uint64_t{99}, uint64_t{100}, uint64_t{105},
                                uint64_t{999}, uint64_t{1000}, uint64_t{12345}, UINT64_MAX}) {
    EXPECT_THAT(line_of({.duration_us = number}), HasSubstr("\"duration_us\":" + std::to_string(number) + ","));
  }
}

// The escapes at each place of a text, and in texts of each length: they are copied in pieces of several sizes.
TEST(JsonLine, EscapesAtEachPlaceOfATextOfEachLength) {
  constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {{"\"", "\\\""},
                                                                        {"\\", "\\\\"},
                                                                        {std::string_view("\0", 1), "\\u0000"},
                                                                        {"\x1f", "\\u001F"},
                                                                        {"\x7f", "\\u007F"},
                                                                        {"\n", "\\u000A"},
                                                                        {"\xc3\xa9", "\xc3\xa9"},
                                                                        {"\x80", "\xef\xbf\xbd"},
                                                                        {"\xff", "\xef\xbf\xbd"},
                                                                        {" ", " "},
                                                                        {"~", "~"},
                                                                        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"}};
  for (const auto& [text, escaped] : kEscapes) {
    for (size_t size = 0; size <= 50; ++size) {
      for (size_t at = 0; at <= size; ++at) {
        const std::string before(at, 'b'), after(size - at, 'a');
        ASSERT_EQ(json_of(before + std::string(text) + after), before + std::string(escaped) + after);
      }
    }
  }
}

TEST(JsonLine, CutsATextThatIsTooLong) {
  constexpr size_t kMost = 1024;
  EXPECT_EQ(json_of(std::string(kMost, 'a')), std::string(kMost, 'a'));
  EXPECT_EQ(json_of(std::string(kMost + 1, 'a')), std::string(kMost - 3, 'a') + "...");
  EXPECT_EQ(json_of(std::string(kMost - 1, 'a') + '"'), std::string(kMost - 3, 'a') + "...");
  EXPECT_EQ(json_of(std::string(kMost - 2, 'a') + '"'), std::string(kMost - 2, 'a') + "\\\"");
  EXPECT_EQ(json_of('"' + std::string(kMost, 'a')), "\\\"" + std::string(kMost - 5, 'a') + "...");
  EXPECT_EQ(json_of(std::string(kMost, '\n').substr(0, 200)).size(), kMost - 4 + 3);  // 170 escapes, and the mark.
}

TEST(JsonLine, WritesNumbersAroundEachPowerOfTen) {
  for (uint64_t power = 1;; power *= 10) {
    for (const uint64_t number : {power - 1, power, power + 1, power / 2 * 3}) {
      EXPECT_THAT(line_of({.duration_us = number}), HasSubstr("\"duration_us\":" + std::to_string(number) + ","));
    }
    if (power > UINT64_MAX / 10) break;
  }
}

// The example of docs/guides/access-log.md.
TEST(JsonLine, HasAllValues) {
  const std::string line = line_of({.time_ms = 1'785'499'932'418,
                                    .client = "203.0.113.7",
                                    .client_port = 51544,
                                    .listener = "edge",
                                    .protocol = "HTTP/2",
                                    .tls = "TLSv1.3",
                                    .cipher = "TLS_AES_128_GCM_SHA256",
                                    .server_name = "api.example.com",
                                    .method = "GET",
                                    .authority = "api.example.com",
                                    .path = "/v1/items?page=2",
                                    .status = 200,
                                    .reason = "ok",
                                    .request_bytes = 7,
                                    .response_bytes = 5120,
                                    .pinned_bytes = 4096,
                                    .duration_us = 1834,
                                    .upstream_us = 1702,
                                    .route = "items",
                                    .upstream = "api",
                                    .endpoint = "10.0.0.4:9000",
                                    .attempts = 2,
                                    .user = "alice",
                                    .user_agent = "curl/8.9.1",
                                    .request_id = "abc",
                                    .trace_id = "0af7651916cd43dd8448eb211c80319c"});
  EXPECT_EQ(
      line,
      "{\"time\":\"2026-07-31T12:12:12.418Z\",\"client\":\"203.0.113.7\",\"client_port\":51544,\"listener\":\"edge\","
      "\"protocol\":\"HTTP/2\","
      "\"tls_version\":\"TLSv1.3\",\"tls_cipher\":\"TLS_AES_128_GCM_SHA256\",\"tls_server_name\":\"api.example.com\","
      "\"method\":\"GET\","
      "\"authority\":\"api.example.com\",\"path\":\"/v1/"
      "items?page=2\",\"status\":200,\"grpc_status\":null,\"reason\":\"ok\",\"detail\":null,"
      "\"bytes_in\":7,\"bytes_out\":5120,\"bytes_pinned\":4096,\"duration_us\":1834,\"upstream_us\":1702,\"route\":"
      "\"items\",\"upstream\":"
      "\"api\","
      "\"endpoint\":\"10.0.0.4:9000\",\"attempts\":2,\"user\":\"alice\",\"request_id\":\"abc\","
      "\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\",\"user_agent\":\"curl/8.9.1\"}\n");
  std::ifstream file(SLUICE_SOURCE_DIR "/docs/guides/access-log.md");
  std::stringstream document;
  document << file.rdbuf();
  EXPECT_THAT(document.str(), HasSubstr("    " + line));
}

TEST(JsonLine, MissingValuesAreNull) {
  EXPECT_EQ(
      line_of({}),
      "{\"time\":\"1970-01-01T00:00:00.000Z\",\"client\":null,\"client_port\":null,\"listener\":null,\"protocol\":null,"
      "\"tls_version\":null,\"tls_cipher\":null,\"tls_server_name\":null,\"method\":null,\"authority\":null,\"path\":"
      "null,\"status\":0,"
      "\"grpc_status\":null,\"reason\":null,\"detail\":null,\"bytes_in\":0,\"bytes_out\":0,\"bytes_pinned\":0,"
      "\"duration_us\":0,"
      "\"upstream_us\":null,"
      "\"route\":null,"
      "\"upstream\":null,\"endpoint\":null,\"attempts\":0,\"user\":null,\"request_id\":null,\"trace_id\":null,"
      "\"user_agent\":null}\n");
}

// The example of docs/guides/access-log.md.
TEST(JsonLine, Connection) {
  const std::string line = line_of({.kind = AccessRecord::Kind::kConnection,
                                    .time_ms = 1'785'499'932'418,
                                    .client = "203.0.113.7",
                                    .client_port = 51544,
                                    .listener = "db",
                                    .protocol = "TCP",
                                    .tls = "TLSv1.3",
                                    .cipher = "TLS_AES_128_GCM_SHA256",
                                    .server_name = "db.example.com",
                                    .reason = "finished",
                                    .request_bytes = 7,
                                    .response_bytes = 5120,
                                    .pinned_bytes = 4096,
                                    .duration_us = 183'400,
                                    .upstream_us = 702,
                                    .route = "0",
                                    .upstream = "db",
                                    .endpoint = "10.0.0.4:5432",
                                    .attempts = 1});
  EXPECT_EQ(
      line,
      "{\"time\":\"2026-07-31T12:12:12.418Z\",\"client\":\"203.0.113.7\",\"client_port\":51544,\"listener\":\"db\","
      "\"protocol\":\"TCP\",\"tls_version\":\"TLSv1.3\",\"tls_cipher\":\"TLS_AES_128_GCM_SHA256\","
      "\"tls_server_name\":\"db.example.com\",\"reason\":\"finished\",\"bytes_in\":7,\"bytes_out\":5120,\"bytes_"
      "pinned\":4096,"
      "\"duration_us\":183400,\"connect_us\":702,\"route\":\"0\",\"upstream\":\"db\",\"endpoint\":\"10.0.0.4:5432\","
      "\"attempts\":1}\n");
  std::ifstream file(SLUICE_SOURCE_DIR "/docs/guides/access-log.md");
  std::stringstream document;
  document << file.rdbuf();
  EXPECT_THAT(document.str(), HasSubstr("    " + line));
}

TEST(JsonLine, Escapes) {
  EXPECT_EQ(json_of("a \"b\" \\ c/d"), "a \\\"b\\\" \\\\ c/d");
  EXPECT_EQ(json_of("\r\n\t\x1b\x7f"), "\\u000D\\u000A\\u0009\\u001B\\u007F");
  EXPECT_EQ(json_of(std::string_view("a\0b", 3)), "a\\u0000b");
  EXPECT_EQ(json_of("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
}

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

TEST(JsonLine, InvalidUtf8) {
  const std::string one(kReplacement);
  EXPECT_EQ(json_of("a\xff\x62"), "a" + one + "b");
  EXPECT_EQ(json_of("\xc3"), one) << "half of one";
  EXPECT_EQ(json_of("\xc3\"x"), one + "\\\"x") << "the quote is no part of it";
  EXPECT_EQ(json_of("\xe2\x82"), one + one);
  EXPECT_EQ(json_of("\xc0\xaf"), one + one) << "longer than need be";
  EXPECT_EQ(json_of("\xe0\x80\xaf"), one + one + one);
  EXPECT_EQ(json_of("\xed\xa0\x80"), one + one + one) << "a surrogate";
  EXPECT_EQ(json_of("\xf4\x90\x80\x80"), one + one + one + one) << "above U+10FFFF";
  EXPECT_EQ(json_of("\xf5\x80"), one + one);
  EXPECT_EQ(json_of("\x80"), one);
  EXPECT_EQ(json_of("\xf0\x8f\xbf\xbf"), one + one + one + one);
}

TEST(JsonLine, CutsAtACharacter) {
  for (const std::string_view each : {"\"", "\n", "\xe2\x82\xac", "\xff", "x"}) {
    for (size_t before = 0; before < 8; ++before) {
      std::string text(before, 'x');
      for (int i = 0; i < 1100; ++i) text += each;
      const std::string cut = json_of(text);
      EXPECT_LE(cut.size(), 1024u);
      EXPECT_GE(cut.size(), 1024u - 8);
      ASSERT_TRUE(cut.ends_with("..."));
      const std::string rest = cut.substr(before, cut.size() - before - 3);
      const std::string one = json_of(each);
      ASSERT_EQ(rest.size() % one.size(), 0u) << rest;
      for (size_t i = 0; i < rest.size(); i += one.size()) ASSERT_EQ(rest.substr(i, one.size()), one);
    }
  }
}

// Whatever the texts are, the result is one line within its bound, and each JSON string ends where it should.
TEST(JsonLine, RandomTexts) {
  std::mt19937_64 random(20260801);
  for (int round = 0; round < 2000; ++round) {
    constexpr std::string_view kNasty = "\n\"\\ \0\x7f\x80\xc3\xe2\xed\xf0\xff{}";
    std::string text(random() % (round % 8 == 0 ? 9000 : 60), 'a');
    for (char& c : text) {
      if (random() % 2 != 0) c = kNasty[random() % kNasty.size()];
    }
    AccessRecord record = {.client = text,
                           .listener = text,
                           .protocol = text,
                           .tls = text,
                           .cipher = text,
                           .method = text,
                           .authority = text,
                           .path = text,
                           .reason = text,
                           .detail = text};
    record.route = record.upstream = record.endpoint = record.user_agent = record.request_id = record.trace_id = text;
    record.user = record.server_name = text;
    record.client_port = UINT16_MAX, record.grpc_status = UINT8_MAX, record.attempts = UINT32_MAX;
    record.request_bytes = record.response_bytes = record.pinned_bytes = record.duration_us = UINT64_MAX;
    record.upstream_us = UINT64_MAX;
    const std::string line = line_of(record);
    ASSERT_LE(line.size(), kMaxLogLineBytes);
    ASSERT_EQ(line.find('\n'), line.size() - 1);
    size_t quotes = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\\') {
        ++i;
      } else if (line[i] == '"') {
        ++quotes;
      }
    }
    ASSERT_EQ(quotes, text.empty() ? 28u * 2 + 2 : 28u * 2 + 2 * 19) << line;
  }
}

}  // namespace
}  // namespace sluice
