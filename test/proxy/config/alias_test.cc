// Anchors, aliases and merge keys: what they copy, and the bounds on it.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/print.h"
#include "proxy/config/load/yaml.h"

namespace sluice::config {
namespace {

constexpr std::string_view kUpstreams = "upstreams: [ { name: pg, endpoints: [ 127.0.0.1:9100 ] } ]\n";

// The tree of a text in one line: [a, {k: v}], with `~` for nothing. Findings stand behind it.
std::string tree_of(std::string_view text) {
  struct Printer {
    static std::string print(const Node& node) {
      if (node.kind == Node::Kind::kNull) return "~";
      if (node.kind == Node::Kind::kScalar) return node.text;
      const bool is_map = node.kind == Node::Kind::kMap;
      std::string out;
      for (size_t i = 0; i < node.items.size(); ++i) {
        absl::StrAppend(&out, i == 0 ? "" : ", ", is_map ? node.keys[i].text + ": " : "", print(node.items[i]));
      }
      return is_map ? absl::StrCat("{", out, "}") : absl::StrCat("[", out, "]");
    }
  };
  Report report("f");
  YamlBudget budget;
  Node root;
  const bool usable = parse_yaml(text, 0, budget, root, report);
  return absl::StrCat(usable ? Printer::print(root) : "", report.status().message());
}

std::string errors_of(std::string_view text) {
  const absl::StatusOr<Config> config = load_text(text, "f");
  return config.ok() ? "" : std::string(config.status().message());
}

std::string repeated(std::string_view text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

// Lists, of which each has `width` aliases of the one before.
std::string laughs(size_t width, size_t levels, std::string_view innermost) {
  std::string text = absl::StrCat("a0: &a0 ", innermost, "\n");
  for (size_t i = 1; i <= levels; ++i) {
    absl::StrAppend(&text, "a", i, ": &a", i, " [", repeated(absl::StrCat("*a", i - 1, ","), width), "]\n");
  }
  return text;
}

TEST(Alias, IsACopy) {
  EXPECT_EQ(tree_of("a: &x 1\nb: *x\n"), "{a: 1, b: 1}");
  EXPECT_EQ(tree_of("a: &x [ 1, { k: v } ]\nb: [ *x, *x ]\n"), "{a: [1, {k: v}], b: [[1, {k: v}], [1, {k: v}]]}");
  EXPECT_EQ(tree_of("a: &x { k: &y [ 1, 2 ] }\nb: *y\nc: *x\n"), "{a: {k: [1, 2]}, b: [1, 2], c: {k: [1, 2]}}");
  EXPECT_EQ(tree_of("- &x\n- *x\n"), "[~, ~]");
  EXPECT_EQ(tree_of("- &k a: &v b\n  c: d\n- *k : *v\n"), "[{a: b, c: d}, {a: b}]") << "a key";
}

TEST(Alias, TakesTheLatestAnchorOfItsName) {
  EXPECT_EQ(tree_of("[ &x 1, *x, &x 2, *x ]"), "[1, 1, 2, 2]");
  EXPECT_EQ(tree_of("[ &unused 1 ]"), "[1]");
}

// The place of a value changes while the tree is built: in each of these the anchor's containers are open or closed in
// another way.
TEST(Alias, FindsItsValueInOpenAndClosedContainers) {
  EXPECT_EQ(tree_of("[ [ [ &x a, *x ], *x ], [ *x ] ]"), "[[[a, a], a], [a]]");
  EXPECT_EQ(tree_of("[ [ 0, [ &x [ a ] ] ], [ 1, [ 2, *x ] ] ]"), "[[0, [[a]]], [1, [2, [a]]]]");
  EXPECT_EQ(tree_of("k: { l: { m: &x a, n: *x }, o: *x }\np: { q: { r: *x } }\n"),
            "{k: {l: {m: a, n: a}, o: a}, p: {q: {r: a}}}");
  EXPECT_EQ(tree_of(absl::StrCat("[ ", repeated("0, ", 1000), "&x a, ", repeated("0, ", 1000), "*x ]")),
            absl::StrCat("[", repeated("0, ", 1000), "a, ", repeated("0, ", 1000), "a]"))
      << "the list grows in between";
}

TEST(Alias, ToWhatItIsInIsRefused) {
  constexpr std::string_view kInside = "this alias (*name) is inside the value that it names";
  EXPECT_EQ(tree_of("&x [ *x ]"), absl::StrCat("f:1:6: ", kInside));
  EXPECT_EQ(tree_of("a: 1\nb: &x { c: [ 1, *x ] }\n"), absl::StrCat("f:2:17: ", kInside));
  EXPECT_EQ(tree_of("a: &x { b: &y { c: *x } }\n"), absl::StrCat("f:1:20: ", kInside));
  EXPECT_TRUE(
      absl::StartsWith(tree_of("a: *x\nb: &x 1\n"), "f:1:4: YAML syntax: the referenced anchor is not defined; "))
      << "it comes before its anchor";
}

TEST(Alias, CopiesCountAgainstTheBounds) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(
      tree_of(laughs(9, 9, "[ lol, lol ]")),
      "f:7:14: with the value that this alias (*name) copies, the configuration has more than 524288 keys and values");
  EXPECT_EQ(tree_of(laughs(100, 3, std::string(40000, 'x'))),
            "f:3:10: with the value that this alias (*name) copies, the configuration is larger than 4 MiB");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(tree_of(absl::StrCat("a: &x ", std::string(15, '['), std::string(15, ']'), "\nb: [ *x ]\n")),
            "f:2:6: with the value that this alias (*name) copies, the file is nested more than 16 deep");
  EXPECT_EQ(tree_of(absl::StrCat("a: &x ", std::string(15, '['), std::string(15, ']'), "\nb: *x\n")),
            absl::StrCat("{a: ", std::string(15, '['), std::string(15, ']'), ", b: ", std::string(15, '['),
                         std::string(15, ']'), "}"));
}

TEST(Alias, CountsEachNodeOnce) {
  // The document, four keys, two lists of half of the rest, one of one value, and a value.
  const std::string list = absl::StrCat("[", repeated("1,", (kMaxYamlNodes - 10) / 2), "]");
  const std::string full = absl::StrCat("a: &x ", list, "\nb: *x\nc: [ 1 ]\nd: &y 1\n");
  const auto errors = [](std::string_view text) {
    Report report("f");
    YamlBudget budget;
    Node root;
    parse_yaml(text, 0, budget, root, report);
    return std::string(report.status().message());
  };
  EXPECT_EQ(errors(full), "");
  EXPECT_EQ(
      errors(absl::StrCat(full, "e: *y\n")),
      "f:5:4: with the value that this alias (*name) copies, the configuration has more than 524288 keys and values");
}

TEST(Alias, ManyKeysAreMergedQuickly) {
  std::string text = "- &x {";
  for (int i = 0; i < 60000; ++i) absl::StrAppend(&text, "k", i, ": 1, ");
  text += "}\n- { <<: *x, ";
  for (int i = 0; i < 60000; ++i) absl::StrAppend(&text, "l", i, ": 1, ");
  text += "}\n";
  const auto start = std::chrono::steady_clock::now();
  Report report("f");
  YamlBudget budget;
  Node root;
  ASSERT_TRUE(parse_yaml(text, 0, budget, root, report)) << report.status();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(root.items[1].items.size(), 120000U);
}

TEST(Alias, MergeKeys) {
  constexpr std::string_view kMaps = "- &a { k: a, l: a }\n- &b { k: b, m: b }\n";
  const auto merged = [&](std::string_view item) {
    return tree_of(absl::StrCat(kMaps, "- ", item, "\n"))
        .substr(std::string_view("[{k: a, l: a}, {k: b, m: b}, ").size());
  };
  EXPECT_EQ(merged("{ <<: *a }"), "{k: a, l: a}]");
  EXPECT_EQ(merged("{ k: own, <<: *a }"), "{k: own, l: a}]");
  EXPECT_EQ(merged("{ <<: *a, k: own }"), "{k: own, l: a}]") << "in any order";
  EXPECT_EQ(merged("{ <<: [ *a, *b ] }"), "{k: a, l: a, m: b}]") << "the first in the list wins";
  EXPECT_EQ(merged("{ <<: [ *b, *a ], l: own }"), "{l: own, k: b, m: b}]");
  EXPECT_EQ(merged("{ <<: [ *b, { n: 1 } ] }"), "{k: b, m: b, n: 1}]") << "a map that is no alias";
  EXPECT_EQ(merged("{ <<: [], k: own }"), "{k: own}]");
  EXPECT_EQ(merged("{ << : &c { <<: *a, m: c }, n: { <<: *c } }"), "{n: {m: c, k: a, l: a}, m: c, k: a, l: a}]")
      << "a merged map may have been merged itself";
}

TEST(Alias, MergeKeysNeedMaps) {
  EXPECT_EQ(tree_of("a: { <<: 1 }\n"), "f:1:10: <<: expected a map, or a list of maps, as in <<: *name, got \"1\"");
  EXPECT_EQ(tree_of("- &a { k: 1 }\n- <<: [ *a, [ *a ] ]\n"),
            "f:2:13: <<: expected a map, or a list of maps, as in <<: *name, got a list");
  EXPECT_EQ(tree_of("a:\n  <<:\n"), "f:2:3: <<: expected a map, or a list of maps, as in <<: *name, got nothing");
  EXPECT_EQ(errors_of(absl::StrCat("listeners: [ { <<: { tcp: { forward: pg } }, <<: { name: a }, address: 0.0.0.0:1 } "
                                   "]\n",
                                   kUpstreams)),
            "f:1:46: duplicate key \"<<\": it is already at 1:16");
}

TEST(Alias, InAConfiguration) {
  constexpr std::string_view kText = R"(
listeners:
  - &edge
    name: one
    address: 0.0.0.0:1
    keepalive: { idle: 5s }
    tcp: { forward: app }
  - <<: *edge
    name: two
    address: 0.0.0.0:2
upstreams:
  - name: app
    endpoints: &servers [ 10.0.0.1:80, 10.0.0.2:80 ]
  - name: other
    endpoints: *servers
)";
  const absl::StatusOr<Config> config = load_text(kText, "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->listeners[1].name, "two");
  EXPECT_EQ(config->listeners[1].keepalive, config->listeners[0].keepalive);
  EXPECT_EQ(config->listeners[1].tcp, config->listeners[0].tcp);
  EXPECT_EQ(config->upstreams[1].endpoints, config->upstreams[0].endpoints);
  const std::string printed = print_config(*config);
  EXPECT_EQ(load_text(printed, "printed").value(), *config) << printed;
}

// A copied value has no text of its own: its findings have the place of the original, for each of its uses.
TEST(Alias, FindingsHaveThePlaceOfTheAnchor) {
  EXPECT_EQ(
      errors_of(absl::StrCat("listeners:\n"
                             "  - { name: a, address: 0.0.0.0:1, tcp: &t { forward: pg, idle_timeout: 5 } }\n"
                             "  - { name: b, address: 0.0.0.0:2, tcp: *t }\n",
                             kUpstreams)),
      "f:2:73: listeners[0].tcp.idle_timeout: expected a duration such as 250ms, 5s, 1m or 2h, got \"5\"; add its "
      "unit, as in 5s\n"
      "f:2:73: listeners[1].tcp.idle_timeout: expected a duration such as 250ms, 5s, 1m or 2h, got \"5\"; add its "
      "unit, as in 5s");
}

}  // namespace
}  // namespace sluice::config
