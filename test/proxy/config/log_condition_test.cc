#include "proxy/config/model/log_condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace sluice::config {
namespace {

using testing::HasSubstr, testing::StartsWith;
using Kind = LogCondition::Node::Kind;

std::string error(std::string_view text) {
  const absl::StatusOr<LogCondition> parsed = LogCondition::parse(text);
  return parsed.ok() ? "none" : std::string(parsed.status().message());
}

// The tree with parentheses around everything.
std::string tree(const LogCondition& condition, size_t index) {
  constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
  const LogCondition::Node& node = condition.nodes()[index];
  const std::string by(kOperators[static_cast<size_t>(node.comparison)]);
  switch (node.kind) {
    case Kind::kAnd:
      return "(" + tree(condition, node.left) + " and " + tree(condition, node.right) + ")";
    case Kind::kOr:
      return "(" + tree(condition, node.left) + " or " + tree(condition, node.right) + ")";
    case Kind::kNot:
      return "(not " + tree(condition, node.left) + ")";
    case Kind::kNumber:
      return std::string(name_of(node.field.variable)) + by + std::to_string(node.number);
    case Kind::kText:
      return std::string(name_of(node.field.variable)) + (node.field.text.empty() ? "" : ":" + node.field.text) + by +
             "'" + node.text + "'";
    case Kind::kRandom:
      return "random" + by + std::to_string(node.number);
  }
  return "";
}

std::string tree(std::string_view text) {
  const absl::StatusOr<LogCondition> parsed = LogCondition::parse(text);
  if (!parsed.ok()) return std::string(parsed.status().message());
  EXPECT_EQ(parsed->text(), text);
  return tree(*parsed, parsed->nodes().size() - 1);
}

TEST(LogCondition, Comparisons) {
  EXPECT_TRUE(LogCondition().empty());
  EXPECT_EQ(tree("status >= 500"), "status>=500");
  EXPECT_EQ(tree("status==200"), "status==200");
  EXPECT_EQ(tree("attempts != 1"), "attempts!=1");
  EXPECT_EQ(tree("grpc_status > 0"), "grpc_status>0");
  EXPECT_EQ(tree("client_port < 1024"), "client_port<1024");
  EXPECT_EQ(tree("method == POST"), "method=='POST'");
  EXPECT_EQ(tree("path != /healthz"), "path!='/healthz'");
  EXPECT_EQ(tree("user == ''"), "user==''");
  EXPECT_EQ(tree("user == \"and (or)\""), "user=='and (or)'");
  EXPECT_EQ(tree("header:X-Test == 1"), "header:x-test=='1'");
  EXPECT_EQ(tree("random < 0.5"), "random<2147483648");
  EXPECT_EQ(tree("random < 1"), "random<4294967296");
}

TEST(LogCondition, Units) {
  EXPECT_EQ(tree("duration > 1s"), "duration>1000000");
  EXPECT_EQ(tree("duration > 250us"), "duration>250");
  EXPECT_EQ(tree("upstream_duration > 5ms"), "upstream_duration>5000");
  EXPECT_EQ(tree("connect_duration >= 1m"), "connect_duration>=60000000");
  EXPECT_EQ(tree("duration > 0"), "duration>0");
  EXPECT_EQ(tree("bytes_out >= 1MiB"), "bytes_out>=1048576");
  EXPECT_EQ(tree("bytes_in == 10"), "bytes_in==10");
}

TEST(LogCondition, Precedence) {
  EXPECT_EQ(tree("status == 1 or status == 2 and status == 3"), "(status==1 or (status==2 and status==3))");
  EXPECT_EQ(tree("(status == 1 or status == 2) and status == 3"), "((status==1 or status==2) and status==3)");
  EXPECT_EQ(tree("not status == 1 and status == 2"), "((not status==1) and status==2)");
  EXPECT_EQ(tree("not (status == 1 and status == 2)"), "(not (status==1 and status==2))");
  EXPECT_EQ(tree("not not status == 1"), "(not (not status==1))");
  EXPECT_EQ(tree("status == 1 or status == 2 or status == 3"), "((status==1 or status==2) or status==3)");
}

TEST(LogCondition, Errors) {
  EXPECT_EQ(error(""), "expected a field such as status, `not` or `(`, got the end");
  EXPECT_THAT(error("statu >= 500"),
              StartsWith("there is no field \"statu\" (character 1); did you mean \"status\"?; the"));
  EXPECT_THAT(error("status > 1 or durration > 1s"),
              HasSubstr("\"durration\" (character 15); did you mean \"duration\"?"));
  EXPECT_THAT(error("response_header:etag == 1"), StartsWith("there is no field"));
  EXPECT_THAT(error("time == 1"), StartsWith("there is no field"));
  EXPECT_EQ(error("status = 200"),
            "expected ==, !=, <, <=, > or >= behind \"status\", got \"=\" (character 8); write == to compare");
  EXPECT_EQ(error("status"), "expected ==, !=, <, <=, > or >= behind \"status\", got the end");
  EXPECT_EQ(error("status =="), "expected a value for \"status\", got the end");
  EXPECT_EQ(error("status == 5xx"), "expected a whole number, got \"5xx\" for \"status\" (character 11)");
  EXPECT_EQ(error("status == -1"), "expected a whole number, got \"-1\" for \"status\" (character 11)");
  EXPECT_EQ(error("status == 99999999999999999999"),
            "expected a whole number, got \"99999999999999999999\" for \"status\" (character 11)");
  EXPECT_EQ(error("duration > 1"),
            "expected a time such as 250us, 5ms, 1s or 2m, got \"1\" for \"duration\" (character 12)");
  EXPECT_EQ(error("method > GET"), "\"method\" is a text: expected == or != behind it, got \">\" (character 8)");
  EXPECT_EQ(error("status > 1 status < 3"), "expected `and`, `or` or the end, got \"status\" (character 12)");
  EXPECT_EQ(error("(status > 1"), "expected `and`, `or` or the `)` of character 1, got the end");
  EXPECT_EQ(error("status > 1)"), "expected `and`, `or` or the end, got \")\" (character 11)");
  EXPECT_EQ(error("status > 1 and"), "expected a field such as status, `not` or `(`, got the end");
  EXPECT_EQ(error("and status > 1"), "expected a field such as status, `not` or `(`, got \"and\" (character 1)");
  EXPECT_EQ(error("user == 'a"),
            "expected a value for \"user\", got \"\\'a\" (character 9); a quoted text needs its second quote");
  EXPECT_EQ(error("status > 1 & status < 3"), "expected `and`, `or` or the end, got \"&\" (character 12)");
  EXPECT_EQ(error("random < 2"), "expected a number from 0 to 1 such as 0.01, got \"2\" (character 10)");
}

TEST(LogCondition, Bounds) {
  std::string text = "status > 1";
  for (size_t i = 0; i + 1 < LogCondition::kMaxDepth; ++i) text = "(" + text + ")";
  EXPECT_EQ(error(text), "none");
  EXPECT_EQ(error("(" + text + ")"), "expected at most 32 parentheses and `not` inside each other");
  std::string nots;
  for (size_t i = 0; i < LogCondition::kMaxDepth; ++i) nots += "not ";
  EXPECT_EQ(error(nots + "status > 1"), "expected at most 32 parentheses and `not` inside each other");
  std::string chain = "status > 1";
  while (chain.size() + 14 <= LogCondition::kMaxBytes) chain += " or status > 1";
  EXPECT_EQ(error(chain), "none");
  EXPECT_EQ(error(std::string(LogCondition::kMaxBytes + 1, ' ')), "expected a text of at most 1024 bytes, got 1025");
}

TEST(Share, ParseAndPrint) {
  EXPECT_TRUE(Share().is_all());
  EXPECT_EQ(Share::parse("1")->text(), "1");
  EXPECT_EQ(Share::parse("1.0")->text(), "1");
  EXPECT_EQ(Share::parse("0.01")->millionths(), 10'000u);
  EXPECT_EQ(Share::parse("0.01")->text(), "0.01");
  EXPECT_EQ(Share::parse("0.000001")->text(), "0.000001");
  EXPECT_EQ(Share::parse("0.500")->text(), "0.5");
  for (const std::string_view bad :
       {"", "0", "0.0", "2", "1.1", "1%", ".5", "0.", "-0.1", "0.0000001", "1e-2", "0,1", "0.x"}) {
    const absl::StatusOr<Share> parsed = Share::parse(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_THAT(std::string(parsed.status().message()), StartsWith("expected a number above 0, up to 1, such as 0.01"));
  }
}

}  // namespace
}  // namespace sluice::config
