#include "proxy/cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using testing::ElementsAre;

absl::StatusOr<Arguments> parse(std::string_view command, std::vector<std::string_view> arguments) {
  return Arguments::parse(*find_command(command), arguments);
}

std::string error_of(std::string_view command, const std::vector<std::string_view>& arguments) {
  return std::string(parse(command, arguments).status().message());
}

TEST(Arguments, TakesBothSpellings) {
  const auto parsed = parse("run", {"--config", "a", "--config=b=c", "--tcp", "--to=1", "--to", "--2"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->value("--config"), "b=c");
  EXPECT_EQ(parsed->value("--tcp"), "");
  EXPECT_THAT(parsed->values("--to"), ElementsAre("1", "--2"));
  EXPECT_FALSE(parsed->has("--listen"));
  EXPECT_TRUE(parsed->words().empty());
}

TEST(Arguments, TakesWordsWhereTheCommandDoes) {
  const auto parsed = parse("explain", {"GET", "-H", "a: b=c", "http://x/"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->words(), ElementsAre("GET", "http://x/"));
  EXPECT_EQ(parsed->value("-H"), "a: b=c");
  EXPECT_EQ(error_of("explain", {"a", "b", "c"}), R"(unknown argument "c" of explain)");
  EXPECT_EQ(error_of("completion", {"csh"}), R"(completion takes bash, zsh or fish, got "csh")");
}

TEST(Arguments, NamesTheNearestOptionOrTheCommandThatHasIt) {
  EXPECT_EQ(error_of("run", {"--confg", "x"}), R"(unknown option "--confg" of run; did you mean "--config"?)");
  EXPECT_EQ(error_of("check", {"--workers=2"}), R"(unknown option "--workers" of check; it belongs to run)");
  EXPECT_EQ(error_of("schema", {"--config"}),
            R"(unknown option "--config" of schema; it belongs to run, check, diff, admin, top, explain)");
  EXPECT_EQ(error_of("schema", {"-"}), R"(unknown option "-" of schema)");
}

TEST(Arguments, ChecksValues) {
  EXPECT_EQ(error_of("run", {"--config"}), "--config needs a value, FILE");
  EXPECT_EQ(error_of("run", {"--tcp="}), "--tcp takes no value");
  EXPECT_EQ(error_of("run", {"--pool="}), R"(--pool takes arena or malloc, got "")");
}

}  // namespace
}  // namespace sluice
