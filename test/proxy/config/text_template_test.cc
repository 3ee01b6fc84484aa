#include "proxy/config/model/text_template.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace sluice::config {
namespace {

using Piece = TextTemplate::Piece;
using Pieces = std::vector<Piece>;

Pieces pieces(std::string_view text) {
  const absl::StatusOr<TextTemplate> parsed = TextTemplate::parse(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return {};
  EXPECT_EQ(parsed->text(), text);
  return parsed->pieces();
}

std::string error(std::string_view text) {
  const absl::StatusOr<TextTemplate> parsed = TextTemplate::parse(text);
  return parsed.ok() ? "none" : std::string(parsed.status().message());
}

TEST(TextTemplate, TextAndVariables) {
  EXPECT_EQ(pieces(""), Pieces{});
  EXPECT_EQ(pieces("plain text"), (Pieces{{TextVariable::kNone, "plain text"}}));
  EXPECT_EQ(pieces("100%%"), (Pieces{{TextVariable::kNone, "100%"}}));
  EXPECT_EQ(pieces("%%{host}"), (Pieces{{TextVariable::kNone, "%{host}"}}));
  EXPECT_EQ(pieces("%{client_ip}"), (Pieces{{TextVariable::kClientIp, ""}}));
  EXPECT_EQ(pieces("for=%{client_ip};host=%{host}%{path}"), (Pieces{{TextVariable::kNone, "for="},
                                                                    {TextVariable::kClientIp, ""},
                                                                    {TextVariable::kNone, ";host="},
                                                                    {TextVariable::kHost, ""},
                                                                    {TextVariable::kPath, ""}}));
  EXPECT_EQ(pieces("%{header:X-Env}"), (Pieces{{TextVariable::kHeader, "x-env"}}));
  EXPECT_EQ(pieces("caf\xc3\xa9"), (Pieces{{TextVariable::kNone, "caf\xc3\xa9"}}));
}

TEST(TextTemplate, EachVariable) {
  constexpr std::string_view kNames[] = {
      "client_ip", "host", "authority",   "method",          "path",       "query",   "scheme", "protocol",
      "listener",  "peer", "tls_version", "tls_server_name", "request_id", "trace_id"};
  auto expected = static_cast<uint8_t>(TextVariable::kClientIp);
  for (const std::string_view name : kNames) {
    EXPECT_EQ(pieces("%{" + std::string(name) + "}"), (Pieces{{static_cast<TextVariable>(expected++), ""}})) << name;
  }
  EXPECT_EQ(static_cast<TextVariable>(expected), TextVariable::kHeader);
}

TEST(TextTemplate, EachVariableOfTheLog) {
  constexpr std::string_view kNames[] = {
      "target",      "time",     "clf_time",          "status",           "reason",
      "detail",      "duration", "upstream_duration", "bytes_in",         "bytes_out",
      "route",       "upstream", "endpoint",          "attempts",         "tls_cipher",
      "client_port", "user",     "grpc_status",       "connect_duration", "bytes_pinned"};
  auto expected = static_cast<uint8_t>(TextVariable::kTarget);
  for (const std::string_view name : kNames) {
    const std::string text = "%{" + std::string(name) + "}";
    const absl::StatusOr<TextTemplate> parsed = TextTemplate::parse(text, TextScope::kLog);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(name_of(static_cast<TextVariable>(expected)), name);
    EXPECT_EQ(parsed->pieces(), (Pieces{{static_cast<TextVariable>(expected++), ""}})) << name;
    EXPECT_EQ(error(text),
              "\"" + std::string(name) + "\" is known when a request has ended: only `access_log.format` may have it");
  }
  EXPECT_EQ(static_cast<TextVariable>(expected), TextVariable::kResponseHeader);
  EXPECT_EQ(TextTemplate::parse("%{response_header:ETag}%{host}", TextScope::kLog)->pieces(),
            (Pieces{{TextVariable::kResponseHeader, "etag"}, {TextVariable::kHost, ""}}));
  EXPECT_EQ(TextTemplate::parse("%{statu}", TextScope::kLog).status().message(),
            "there is no variable \"statu\"; did you mean %{status}?");
}

TEST(TextTemplate, HasVariables) {
  EXPECT_FALSE(TextTemplate::parse("")->has_variables());
  EXPECT_FALSE(TextTemplate::parse("a%%{host}")->has_variables());
  EXPECT_TRUE(TextTemplate::parse("a%{host}")->has_variables());
}

TEST(TextTemplate, Errors) {
  EXPECT_EQ(error("50%"), "expected %{VARIABLE}, or %% for a percent sign, got \"50%\"");
  EXPECT_EQ(error("%{host"), "expected %{VARIABLE}, or %% for a percent sign, got \"%{host\"");
  EXPECT_EQ(error("%host}"), "expected %{VARIABLE}, or %% for a percent sign, got \"%host}\"");
  EXPECT_EQ(error("%{hots}"), "there is no variable \"hots\"; did you mean %{host}?");
  EXPECT_EQ(error("%{}").substr(0, 52), "there is no variable \"\"; the variables are client_ip");
  EXPECT_EQ(error("%{header:}"), "expected the name of a header field such as x-env, got \"\"");
  EXPECT_EQ(error("%{header:a b}"), "expected the name of a header field such as x-env, got \"a b\"");
  EXPECT_EQ(error("a\nb"), "expected a text without control characters, got \"a\\nb\"");
  EXPECT_EQ(error(" a"), "expected a text without blanks at its ends, got \" a\"");
  EXPECT_EQ(error("a\t"), "expected a text without blanks at its ends, got \"a\\t\"");
}

}  // namespace
}  // namespace sluice::config
