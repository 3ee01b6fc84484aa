#include "proxy/http/h2/priority.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Http2PriorityTest, IsParsed) {
  const struct {
    const char* value;
    int urgency;
    bool incremental;
  } cases[] = {
      {"u=0", 0, false},           {"u=7, i", 7, true},      {"i", 3, true},
      {"i=?0, u=5", 5, false},     {"u=5;x=1,i;y", 5, true}, {"u=8", 3, false},
      {"u=-1", 3, false},          {"u=1.0", 3, false},      {"u=2, u=4", 4, false},
      {"\tu=1 ,\t i=?1", 1, true}, {"foo=bar", 3, false},    {",,", 3, false},
      {"i=1", 3, false},           {"u", 3, false},
  };
  for (const auto& c : cases) {
    Http2Priority priority;
    priority.parse(c.value);
    EXPECT_EQ(priority.urgency, c.urgency) << c.value;
    EXPECT_EQ(priority.incremental, c.incremental) << c.value;
    EXPECT_TRUE(priority.told);
  }
  Http2Priority priority;
  priority.parse(" ");
  EXPECT_FALSE(priority.told);
  EXPECT_TRUE(priority.incremental);
}

}  // namespace
}  // namespace sluice
