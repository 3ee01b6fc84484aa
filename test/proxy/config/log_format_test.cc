#include "proxy/config/model/log_format.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace sluice::config {
namespace {

std::string error(std::string_view text) {
  const absl::StatusOr<LogFormat> parsed = LogFormat::parse(text);
  return parsed.ok() ? "none" : std::string(parsed.status().message());
}

TEST(LogFormat, Kinds) {
  EXPECT_EQ(LogFormat().text(), "default");
  EXPECT_EQ(LogFormat::parse("default")->kind(), LogFormat::Kind::kDefault);
  EXPECT_EQ(LogFormat::parse("json")->kind(), LogFormat::Kind::kJson);
  EXPECT_EQ(LogFormat::parse("json")->text(), "json");
  const LogFormat text = LogFormat::parse("[%{status}] %{host}").value();
  EXPECT_EQ(text.kind(), LogFormat::Kind::kText);
  EXPECT_EQ(text.text(), "[%{status}] %{host}");
  EXPECT_EQ(text.line().pieces().size(), 4u);
  EXPECT_FALSE(text.uses_response_fields());
  EXPECT_TRUE(LogFormat::parse("%{response_header:etag}")->uses_response_fields());
}

TEST(LogFormat, Errors) {
  EXPECT_EQ(error("jsn"),
            "expected default, json, or a text with variables such as \"%{client_ip} %{status}\", got \"jsn\"; did you "
            "mean \"json\"?");
  EXPECT_EQ(error(""), "expected default, json, or a text with variables such as \"%{client_ip} %{status}\", got \"\"");
  EXPECT_EQ(error("%{statu}"), "there is no variable \"statu\"; did you mean %{status}?");
  EXPECT_EQ(error("%{status}\n"), "expected a text without control characters, got \"%{status}\\n\"");
  std::string text = "%{status}";
  text.append(LogFormat::kMaxBytes - text.size(), 'x');
  EXPECT_EQ(error(text), "none");
  EXPECT_EQ(error(text + "x"), "expected a text of at most 2048 bytes, got 2049");
  std::string fields;
  for (size_t i = 0; i < LogFormat::kMaxResponseFields; ++i) fields += "%{response_header:x}";
  EXPECT_EQ(error(fields), "none");
  EXPECT_EQ(error(fields + "%{response_header:y}"), "expected at most 8 variables %{response_header:NAME}");
}

}  // namespace
}  // namespace sluice::config
