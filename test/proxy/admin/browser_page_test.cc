#include "proxy/admin/browser_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(BrowserPage, IsWhole) {
  EXPECT_THAT(browser_page(), StartsWith("<!DOCTYPE html>\n"));
  EXPECT_THAT(browser_page(), EndsWith("</html>\n"));
}

// test/e2e/admin_page_test.py shows that a browser agrees.
TEST(BrowserPage, PolicyHasHashes) {
  EXPECT_THAT(browser_page_policy(), HasSubstr("script-src 'sha256-"));
  EXPECT_THAT(browser_page_policy(), HasSubstr("style-src 'sha256-"));
  EXPECT_THAT(browser_page_policy(), Not(HasSubstr("unsafe")));
}

TEST(BrowserPage, IsForClientsThatNameHtml) {
  for (const char* accept : {"text/html", "application/json, Text/HTML;q=0.5", "*/*,\ttext/html ; q=1"}) {
    EXPECT_TRUE(wants_browser_page(accept)) << accept;
  }
  for (const char* accept : {"", "*/*", "text/*", "text/htmlx", "text/plain;x=text/html", "application/xhtml+xml"}) {
    EXPECT_FALSE(wants_browser_page(accept)) << accept;
  }
}

}  // namespace
}  // namespace sluice
