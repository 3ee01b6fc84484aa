#include "proxy/common/name_match.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

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
  if (!pattern.starts_with("*.")) return pattern == name;
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
    for (size_t count = random() % 60; count > 0; --count) texts.push_back((random() % 2 ? "*." : "") + random_name());
    for (uint32_t i = 0; i < texts.size(); ++i) patterns.push_back({texts[i], i});
    const NameTable table(patterns);
    for (int i = 0; i < 50; ++i) {
      const std::string name = random_name();
      std::vector<uint32_t> exact, wildcard;
      for (uint32_t j = 0; j < texts.size(); ++j) {
        if (fits(texts[j], name)) (texts[j][0] == '*' ? wildcard : exact).push_back(j);
      }
      const NameTable::Match match = table.find(name);
      ASSERT_EQ(values(match.exact), exact) << name;
      ASSERT_EQ(values(match.wildcard), wildcard) << name;
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
