// nginx's files as a tree of directives.
#include <gtest/gtest.h>

#include <string>

#include "proxy/convert/nginx/directive.h"
#include "test/proxy/convert/nginx_mapped.h"

namespace sluice::convert::nginx {
namespace {

ParsedFiles parsed(const std::string& text) {
  const Disk disk{.read = [&](const std::string&) -> absl::StatusOr<std::string> { return text; }, .matches = {}};
  return parse_files("/a/nginx.conf", disk);
}

TEST(NginxParser, WordsAndQuotes) {
  const ParsedFiles made = parsed(
      "a b \"c d\" 'e;f' g\\;h \"i\\\"j\" k\\.l ${m}n; # not ; this\n"
      "o { p q; }\n");
  ASSERT_EQ(made.error, "");
  ASSERT_EQ(made.root.block.size(), 2U);
  const Directive& a = made.root.block[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.args, (std::vector<std::string>{"b", "c d", "e;f", "g\\;h", "i\"j", "k\\.l", "${m}n"}));
  EXPECT_EQ(made.root.block[1].block.front().arg(0), "q");
  EXPECT_EQ(made.root.block[1].mark.line, 2U);
}

struct Mistake {
  std::string text, error;
};
class NginxMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(NginxMistakes, HaveAPlace) { EXPECT_EQ(parsed(GetParam().text).error, "/a/nginx.conf:" + GetParam().error); }

INSTANTIATE_TEST_SUITE_P(All, NginxMistakes,
                         testing::Values(Mistake{"a {\n b;", "2:4: a block does not end: expected `}`"},
                                         Mistake{"a b", "1:4: expected `;` behind \"a\""},
                                         Mistake{"a;\n}", "2:1: there is no block that `}` could end"},
                                         Mistake{"a; ;", "1:4: expected the name of a directive"},
                                         Mistake{"a \"b", "1:3: a quoted text does not end"},
                                         Mistake{"a \"b\"c;", "1:3: expected a space or `;` behind a quoted text"},
                                         Mistake{"include a b;", "1:1: expected `include FILE;`"}));

TEST(NginxParser, Bounds) {
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "a { ";
  EXPECT_NE(parsed(deep).error.find("blocks inside each other"), std::string::npos);
  EXPECT_NE(parsed("include nginx.conf;").error.find("include each other"), std::string::npos);
  std::string many;
  for (size_t i = 0; i <= kMaxDirectives; ++i) many += "a;";
  EXPECT_NE(parsed(many).error.find("directives"), std::string::npos);
}

TEST(NginxParser, Includes) {
  const Mapped mapped = map_text("http { include sites/*; }",
                                 {{"/etc/nginx/sites/a", "server { listen 81; return 204; }"},
                                  {"/etc/nginx/sites/b", "include snippet; server { listen 82; return 204; }"},
                                  {"/etc/nginx/snippet", "server { listen 83; return 204; }"}});
  EXPECT_EQ(mapped.error, "");
  for (const char* const port : {"0.0.0.0:81", "0.0.0.0:82", "0.0.0.0:83"})
    EXPECT_TRUE(mapped.has(port)) << mapped.text;
  EXPECT_NE(map_text("http { include gone.conf; }").error.find("/etc/nginx/gone.conf"), std::string::npos);
}

}  // namespace
}  // namespace sluice::convert::nginx
