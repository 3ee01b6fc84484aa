#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "proxy/access_log/access_line.h"
#include "proxy/http/proxy/client_address.h"
#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

using testing::EndsWith, testing::HasSubstr;

class TextLineTest : public testing::Test {
 protected:
  TextLineTest() : use_(&pool_) {
    facts_.client = &client_;
    facts_.fields = &fields_;
    record_.facts = &facts_;
  }

  std::string line(std::string_view format) {
    const auto parsed = config::LogFormat::parse(format);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (!parsed.ok()) return "";
    std::string out(kMaxLogLineBytes, '?');
    out.resize(format_access_line(*parsed, record_, out));
    EXPECT_TRUE(out.ends_with('\n'));
    out.pop_back();
    EXPECT_EQ(out.find('\n'), std::string::npos);
    return out;
  }
  void field(std::string_view name, std::string_view value) { EXPECT_TRUE(fields_.add(pool_, name, value)); }

  ChunkPool pool_{{.budget_bytes = size_t{4} << 20}};
  ChunkPool::Use use_;
  ClientIp client_ = parse_forwarded_address("203.0.113.7").value();
  Fields fields_;
  RequestAttributes facts_;
  AccessRecord record_;
};

// All variables of a connection.
TEST_F(TextLineTest, Connection) {
  record_ = {.kind = AccessRecord::Kind::kConnection,
             .client = "203.0.113.7",
             .client_port = 51544,
             .listener = "db",
             .protocol = "TCP",
             .tls = "TLSv1.3",
             .cipher = "C",
             .server_name = "db.example.com",
             .reason = "finished",
             .request_bytes = 1,
             .response_bytes = 2,
             .duration_us = 3,
             .upstream_us = 4,
             .route = "0",
             .upstream = "u",
             .endpoint = "e",
             .attempts = 5};
  std::string format, names = config::connection_variables();
  for (size_t comma; (comma = names.find(", ")) != std::string::npos;) names.replace(comma, 2, " ");
  std::stringstream words(names);
  for (std::string word; words >> word;) {
    if (word != "time" && word != "clf_time") format += "%{" + word + "} ";
  }
  EXPECT_EQ(line(format + "x"), "203.0.113.7 51544 db TCP TLSv1.3 C db.example.com finished 3 4 1 2 0 u e 5 0 x");
}

// The format that other servers call combined.
TEST_F(TextLineTest, Combined) {
  record_.time_ms = 1'785'499'932'418;
  record_.client = "203.0.113.7";
  record_.protocol = "HTTP/2";
  record_.path = "/a?b";
  record_.status = 404;
  record_.response_bytes = 12;
  facts_.method = "GET";
  field("user-agent", "Mozilla/5.0 (X11) \"x\"");
  constexpr std::string_view kCombined =
      "%{client_ip} - - [%{clf_time}] \"%{method} %{target} %{protocol}\" %{status} %{bytes_out} "
      "\"%{header:referer}\" \"%{header:user-agent}\"";
  std::ifstream file(SLUICE_SOURCE_DIR "/docs/guides/access-log.md");
  std::stringstream document;
  document << file.rdbuf();
  EXPECT_THAT(document.str(), HasSubstr("format: '" + std::string(kCombined) + "'\n"));
  EXPECT_EQ(line(kCombined),
            "203.0.113.7 - - [31/Jul/2026:12:12:12 +0000] \"GET /a?b HTTP/2\" 404 12 \"-\" \"Mozilla/5.0 (X11) "
            "\\x22x\\x22\"");
}

TEST_F(TextLineTest, EachVariableOfTheLog) {
  record_ = {.time_ms = 1'785'499'932'418,
             .cipher = "C",
             .path = "/p?q",
             .status = 503,
             .reason = "no_endpoint",
             .detail = "d",
             .request_bytes = 1,
             .response_bytes = 2,
             .duration_us = 3,
             .upstream_us = 4,
             .route = "r",
             .upstream = "u",
             .endpoint = "e",
             .attempts = 5,
             .user = "alice",
             .grpc_status = 0,
             .facts = &facts_};
  record_.client_port = 4711;
  record_.pinned_bytes = 4096;
  EXPECT_EQ(
      line("%{time} %{target} %{status} %{reason} %{detail} %{duration} %{upstream_duration} %{bytes_in} %{bytes_out} "
           "%{route} %{upstream} %{endpoint} %{attempts} %{tls_cipher} %{user} %{grpc_status} %{client_port} "
           "%{bytes_pinned} 100%%"),
      "2026-07-31T12:12:12.418Z /p?q 503 no_endpoint d 3 4 1 2 r u e 5 C alice 0 4711 4096 100%");
  facts_.request_id = "i";
  facts_.trace_id = "t";
  facts_.host = "h";
  EXPECT_EQ(line("%{request_id}%{trace_id}%{host}%{query}"), "ith-");
}

TEST_F(TextLineTest, MissingValuesAreDashes) {
  record_.facts = nullptr;
  EXPECT_EQ(line("%{client_ip} %{client_port} %{upstream_duration} %{route} %{header:x} %{response_header:y} %{user} "
                 "%{grpc_status} %{connect_duration} %{status}"),
            "- - - - - - - - - 0");
}

TEST_F(TextLineTest, FieldsOfTheResponse) {
  std::array<char, 3 * KeptValues::kMaxValue> kept;
  const std::string large(KeptValues::kMaxText + 100, 'x');
  size_t size = KeptValues::put("text/html", kept.data());
  size += KeptValues::put("", kept.data() + size);
  size += KeptValues::put(large, kept.data() + size);
  record_.response_fields = KeptValues({kept.data(), size});
  EXPECT_EQ(line("%{response_header:content-type} %{response_header:etag} %{status} %{response_header:x}"),
            "text/html - 0 " + large.substr(0, KeptValues::kMaxText));
}

// Outside of quotes a space would end the field, so that a client could add a field.
TEST_F(TextLineTest, SpacesAreKeptOnlyBetweenQuotes) {
  field("x", "a b\"c");
  EXPECT_EQ(line("%{header:x} \"%{header:x}\" %{header:x} \"<%{header:x}> %{status}\" %{header:x}"),
            "a\\x20b\\x22c \"a b\\x22c\" a\\x20b\\x22c \"<a b\\x22c> 0\" a\\x20b\\x22c");
}

TEST_F(TextLineTest, ClientsCannotAddLines) {
  record_.path = "/\n/forged";
  field("x", "a\r\nb\x7f\xff");
  EXPECT_EQ(line("%{target} \"%{header:x}\""), "/\\x0A/forged \"a\\x0D\\x0Ab\\x7F\\xFF\"");
}

TEST_F(TextLineTest, Bounded) {
  const std::string text(20'000, '\n');
  record_.path = text;
  field("x", std::string(20'000, 'x'));
  std::string format;
  for (int i = 0; i < 60; ++i) format += "%{header:x} %{status} ";
  const std::string many = line(format + "%{target}");
  EXPECT_LT(many.size(), kMaxLogLineBytes);
  EXPECT_GT(many.size(), kMaxLogLineBytes - 1100);
  EXPECT_THAT(many, EndsWith("..."));
  EXPECT_EQ(line("%{target} %{status}").size(), 4096u + 2 - 1);  // The escape sequence does not quite fit.
  EXPECT_THAT(line("%{target} %{status}"), EndsWith("... 0"));
}

}  // namespace
}  // namespace sluice
