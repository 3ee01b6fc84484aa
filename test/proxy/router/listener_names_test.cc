// Which of several listeners at one address a server name belongs to.
#include "proxy/router/listener_names.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string_view>
#include <vector>

#include "proxy/config/model/config.h"

namespace sluice {
namespace {

class ListenerNamesTest : public testing::Test {
 protected:
  // Each listener has these names.
  void make(std::initializer_list<std::vector<std::string_view>> listeners) {
    for (const std::vector<std::string_view>& names : listeners) {
      config::Listener& listener = listeners_.emplace_back();
      for (const std::string_view name : names) listener.server_names.push_back(*config::HostPattern::parse(name));
    }
    std::vector<const config::Listener*> all;
    for (const config::Listener& listener : listeners_) all.push_back(&listener);
    names_ = ListenerNames(all);
  }
  size_t find(std::string_view name) const { return names_.find(name); }

  std::vector<config::Listener> listeners_;
  ListenerNames names_;
};

TEST_F(ListenerNamesTest, ExactThenTheLongestWildcardThenTheRest) {
  make({{"**.test"}, {"**.b.test"}, {"*.b.test"}, {"x.b.test"}, {}});
  EXPECT_EQ(find("a.test"), 0U);
  EXPECT_EQ(find("b.test"), 0U);
  EXPECT_EQ(find("y.b.test"), 2U);
  EXPECT_EQ(find("z.y.b.test"), 1U);
  EXPECT_EQ(find("x.b.test"), 3U);
  EXPECT_EQ(find("test"), 4U);
  EXPECT_EQ(find(""), 4U);
  EXPECT_EQ(names_.rest(), 4U);
}

TEST_F(ListenerNamesTest, TheOrderDoesNotMatter) {
  make({{}, {"x.b.test"}, {"*.b.test"}, {"**.b.test"}, {"**.test"}});
  EXPECT_EQ(find("a.test"), 4U);
  EXPECT_EQ(find("y.b.test"), 2U);
  EXPECT_EQ(find("z.y.b.test"), 3U);
  EXPECT_EQ(find("x.b.test"), 1U);
  EXPECT_EQ(find("other"), 0U);
}

TEST_F(ListenerNamesTest, NoneWithoutARest) {
  make({{"a.test"}, {"*.b.test"}});
  EXPECT_EQ(find("c.test"), ListenerNames::kNone);
  EXPECT_EQ(find(""), ListenerNames::kNone);
  EXPECT_EQ(names_.rest(), ListenerNames::kNone);
  EXPECT_EQ(ListenerNames().find("a.test"), ListenerNames::kNone);
}

}  // namespace
}  // namespace sluice
