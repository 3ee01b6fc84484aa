#include "proxy/common/suggestions.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/model/host_pattern.h"

namespace sluice::config {
namespace {

TEST(Words, SuggestsSimilarWords) {
  const std::vector<std::string_view> keys = {"name", "address", "tcp", "keepalive", "max_connections"};
  EXPECT_EQ(nearest("adress", keys), "address");
  EXPECT_EQ(nearest("tpc", keys), "tcp");
  EXPECT_EQ(nearest("keep_alive", keys), "keepalive");
  EXPECT_EQ(nearest("max_conections", keys), "max_connections");
  EXPECT_EQ(nearest("Name", keys), "name");
  EXPECT_EQ(nearest("xyz", keys), std::nullopt);
  EXPECT_EQ(nearest("x", keys), std::nullopt);
  EXPECT_EQ(nearest("", keys), std::nullopt);
  EXPECT_EQ(nearest(std::string(1000, 'a'), keys), std::nullopt);
  EXPECT_EQ(nearest("name", {}), std::nullopt);
}

TEST(Words, QuotesAreShortAndHarmless) {
  EXPECT_EQ(in_quotes("a\"b\n\x1b[2J"), R"("a\"b\n\x1b[2J")");
  EXPECT_EQ(in_quotes("\xc3\xa9"), "\"\xc3\xa9\"");
  EXPECT_EQ(in_quotes(std::string(80, 'a')), "\"" + std::string(80, 'a') + "\"");
  EXPECT_EQ(in_quotes(std::string(81, 'a')), "\"" + std::string(80, 'a') + "...\"");
  EXPECT_EQ(in_quotes(std::string(79, 'a') + "\xc3\xa9"), "\"" + std::string(79, 'a') + "...\"");
}

TEST(HostPattern, LowerCase) {
  EXPECT_EQ(HostPattern::parse("*.Example.com")->text(), "*.example.com");
  EXPECT_EQ(HostPattern::parse("Example.com")->text(), "example.com");
  EXPECT_EQ(HostPattern::parse("**.Example.com")->text(), "**.example.com");
}

TEST(HostPattern, RefusesInvalidHosts) {
  const std::string long_label(64, 'a');
  for (const std::string& text :
       std::vector<std::string>{"", "*", "*.", "**", "**.", "*.*.com", "***.com", "**.*.com", "*.**.com", "a.*.com",
                                "a.**.com", "a*.com", "a..b", "example.com.", "a b", long_label}) {
    EXPECT_EQ(
        HostPattern::parse(text).status().message(),
        "expected a server name such as a.example.com, \"*.example.com\" or \"**.example.com\", got \"" + text + "\"");
  }
  EXPECT_TRUE(HostPattern::parse(long_label.substr(1) + ".com").ok());
}

}  // namespace
}  // namespace sluice::config
