#include "proxy/common/name_match.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "proxy/config/model/host_pattern.h"
#include "proxy/router/request_match.h"

namespace sluice {
namespace {

std::vector<uint32_t> values(std::span<const uint32_t> span) { return {span.begin(), span.end()}; }

TEST(NameTableTest, ExactAndWildcard) {
  const std::vector<NamePattern> patterns = {
      {"*.example.com", 1},   {"api.example.com", 2}, {"example.com", 3}, {"*.B.example.com", 4},
      {"WWW.Example.ORG", 5}, {"localhost", 6},       {"*.com", 7}};
  const NameTable table(patterns);
  EXPECT_EQ(table.size(), 7u);
  const struct {
    std::string_view name;
    uint32_t best;
  } cases[] = {
      {"api.example.com", 2},  // An exact name wins over a wildcard, even if it comes later.
      {"x.example.com", 1},
      {"example.com", 3},  // Also below *.com.
      {"other.com", 7},
      {"b.example.com", 1},
      {"a.b.example.com", 4},
      {"c.a.b.example.com", NameTable::kNone},  // The star stands for one label.
      {"a.api.example.com", NameTable::kNone},
      {"www.example.org", 5},
      {"example.org", NameTable::kNone},
      {"localhost", 6},
      {"a.localhost", NameTable::kNone},
      {"com", NameTable::kNone},
      {"", NameTable::kNone},
      {".", NameTable::kNone},
      {".com", NameTable::kNone},
      {".example.com", NameTable::kNone},
      {"*.example.com", 1},  // No server name of a ClientHello has a star.
      {"x.example.com.", NameTable::kNone},
      {"xexample.com", 7},
  };
  for (const auto& [name, best] : cases) EXPECT_EQ(table.find(name).best(), best) << name;
}

TEST(NameTableTest, ReturnsAllValuesInOrder) {
  const std::vector<NamePattern> patterns = {{"a.com", 9}, {"*.com", 8}, {"b.com", 7},
                                             {"A.com", 2}, {"*.com", 1}, {"a.com", 5}};
  const NameTable table(patterns);
  EXPECT_EQ(table.size(), 3u);
  const NameTable::Match match = table.find("a.com");
  EXPECT_EQ(values(match.exact), (std::vector<uint32_t>{9, 2, 5}));
  EXPECT_EQ(values(match.wildcard), (std::vector<uint32_t>{8, 1}));
  EXPECT_EQ(match.best(), 9u);
  EXPECT_EQ(values(table.find("b.com").exact), (std::vector<uint32_t>{7}));
  EXPECT_TRUE(table.find("c.com").exact.empty());
  EXPECT_EQ(table.find("c.com").best(), 8u);
}

std::vector<uint32_t> all_matches(const NameTable& table, std::string_view name) {
  std::vector<uint32_t> all;
  table.for_each_match(name, [&](std::span<const uint32_t> some) { all.insert(all.end(), some.begin(), some.end()); });
  std::ranges::sort(all);
  return all;
}

TEST(NameTableTest, TwoStarsAreOneLabelOrMore) {
  const std::vector<NamePattern> patterns = {{"**.example.com", 1}, {"*.example.com", 2}, {"**.A.example.com", 3},
                                             {"x.example.com", 4},  {"**.com", 5},        {"**.example.com", 6}};
  const NameTable table(patterns);
  EXPECT_EQ(table.size(), 5u);
  using Values = std::vector<uint32_t>;
  EXPECT_EQ(all_matches(table, "x.example.com"), (Values{1, 2, 4, 5, 6}));
  EXPECT_EQ(all_matches(table, "y.x.example.com"), (Values{1, 5, 6}));
  EXPECT_EQ(all_matches(table, "c.b.a.example.com"), (Values{1, 3, 5, 6}));
  EXPECT_EQ(all_matches(table, "a.example.com"), (Values{1, 2, 5, 6}));
  EXPECT_EQ(all_matches(table, "example.com"), (Values{5}));
  EXPECT_EQ(all_matches(table, "xexample.com"), (Values{5}));
  for (const std::string_view none : {"com", "", ".com", ".a.example.com", "a.b.example.org"}) {
    EXPECT_EQ(all_matches(table, none), Values()) << none;
  }
  EXPECT_EQ(table.find("y.x.example.com").best(), NameTable::kNone) << "find() has no patterns with two stars";
}

TEST(NameTableTest, LongNames) {
  std::string suffix, name = "x";
  std::vector<NamePattern> patterns;
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) {
    suffix += ".a";
    texts.push_back("**" + suffix);
  }
  for (size_t i = 0; i < texts.size(); i += 10) patterns.push_back({texts[i], static_cast<uint32_t>(i)});
  const NameTable table(patterns);
  for (size_t labels = 1; labels <= 126; ++labels) {
    name += ".a";
    std::vector<uint32_t> expected;
    for (uint32_t i = 0; i < 100 && i < labels; i += 10) expected.push_back(i);
    EXPECT_EQ(all_matches(table, name), expected) << labels;
  }
}

TEST(NameTableTest, Empty) {
  EXPECT_EQ(NameTable().find("a.com").best(), NameTable::kNone);
  EXPECT_EQ(NameTable(std::span<const NamePattern>()).find("").best(), NameTable::kNone);
}

TEST(NameTableTest, DoesNotReferToThePatterns) {
  std::string text = "a.example.com";
  const NameTable table(std::vector<NamePattern>{{text, 1}});
  text.assign(text.size(), 'x');
  EXPECT_EQ(table.find("a.example.com").best(), 1u);
}

bool fits(std::string_view pattern, std::string_view name) {
  if (!pattern.starts_with('*')) return pattern == name;
  if (pattern.starts_with("**")) {
    return name.size() > pattern.size() - 2 && name.ends_with(pattern.substr(2)) && !name.starts_with('.');
  }
  const size_t dot = name.find('.');
  return dot != std::string_view::npos && dot > 0 && name.substr(dot) == pattern.substr(1);
}

TEST(NameTableTest, AgreesWithALinearSearch) {
  std::mt19937 random(7);
  const auto random_name = [&random] {
    std::string name(1, static_cast<char>('a' + random() % 3));
    for (size_t labels = random() % 4; labels > 0; --labels)
      name += "." + std::string(1 + random() % 2, static_cast<char>('a' + random() % 3));
    return name;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> texts;
    std::vector<NamePattern> patterns;
    for (size_t count = random() % 60; count > 0; --count)
      texts.push_back(std::array{"", "*.", "**."}[random() % 3] + random_name());
    for (uint32_t i = 0; i < texts.size(); ++i) patterns.push_back({texts[i], i});
    const NameTable table(patterns);
    for (int i = 0; i < 50; ++i) {
      const std::string name = random_name();
      std::vector<uint32_t> exact, wildcard, all;
      for (uint32_t j = 0; j < texts.size(); ++j) {
        ASSERT_EQ(fits_host(config::HostPattern::parse(texts[j]).value(), name), fits(texts[j], name)) << texts[j];
        if (!fits(texts[j], name)) continue;
        all.push_back(j);
        if (!texts[j].starts_with("**")) (texts[j][0] == '*' ? wildcard : exact).push_back(j);
      }
      const NameTable::Match match = table.find(name);
      ASSERT_EQ(values(match.exact), exact) << name;
      ASSERT_EQ(values(match.wildcard), wildcard) << name;
      ASSERT_EQ(all_matches(table, name), all) << name;
    }
  }
}

TEST(NameTableTest, HoldsManyNames) {
  std::vector<std::string> texts;
  for (int i = 0; i < 50000; ++i) texts.push_back("host-" + std::to_string(i) + ".example.com");
  std::vector<NamePattern> patterns;
  for (uint32_t i = 0; i < texts.size(); ++i) patterns.push_back({texts[i], i});
  const NameTable table(patterns);
  EXPECT_EQ(table.size(), texts.size());
  for (uint32_t i = 0; i < texts.size(); ++i) ASSERT_EQ(table.find(texts[i]).best(), i);
  EXPECT_EQ(table.find("host-50000.example.com").best(), NameTable::kNone);
}

}  // namespace
}  // namespace sluice
