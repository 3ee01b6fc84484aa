// The pages that are made from the table of commands. docs/reference/command-line.md must agree with it: rewrite it
// with SLUICE_UPDATE_DOCS=1 in the environment of this test. test/e2e/completion_test.py tries the completions in the
// shells.
#include "proxy/cli/help_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proxy/cli/completion.h"
#include "proxy/cli/manual.h"

namespace sluice {
namespace {

using testing::HasSubstr;

const std::filesystem::path kCommandLine = SLUICE_SOURCE_DIR "/docs/reference/command-line.md";

TEST(CommandTable, IsConsistent) {
  std::set<std::string_view> names;
  for (const Command& command : all_commands()) {
    EXPECT_TRUE(names.insert(command.name).second) << command.name;
    EXPECT_FALSE(command.summary.empty() || command.summary.ends_with('.')) << command.name;
    EXPECT_TRUE(command.text.ends_with('.')) << command.name;
    EXPECT_FALSE(command.usage.empty()) << command.name;
    ASSERT_FALSE(command.exit_codes.rows.empty()) << command.name;
    EXPECT_EQ(command.exit_codes.rows[0].term, "0") << command.name;
    for (const CommandOption& option : command.options) {
      EXPECT_TRUE(option.text.ends_with('.')) << command.name << " " << option.name;
      EXPECT_EQ(command.option(option.name), &option);
      EXPECT_TRUE(option.choices.empty() || !option.value.empty());
    }
  }
  EXPECT_EQ(find_command("nothing"), nullptr);
}

TEST(HelpPage, FitsTerminals) {
  EXPECT_THAT(help_overview(), HasSubstr("\n  sluice check       checks a configuration\n"));
  for (const Command& command : all_commands()) {
    const std::string page = help_page(command);
    EXPECT_THAT(page, HasSubstr(absl::StrCat("  sluice ", command.name)));
    for (const CommandOption& option : command.options) EXPECT_THAT(page, HasSubstr(absl::StrCat("  ", option.name)));
    for (const std::string_view line : absl::StrSplit(page, '\n')) {
      EXPECT_LE(line.size(), 80u) << line;
      EXPECT_FALSE(line.ends_with(' ')) << '"' << line << '"';
    }
  }
}

TEST(HelpPage, ScriptsAndManualHaveAllOptions) {
  const std::string manual = manual_page();
  for (const Command& command : all_commands()) {
    EXPECT_THAT(manual, HasSubstr(absl::StrCat(".SS sluice ", command.name, "\n")));
    for (const char* shell : {"bash", "zsh", "fish"}) EXPECT_THAT(completion_script(shell), HasSubstr(command.name));
    for (const CommandOption& option : command.options) {
      EXPECT_THAT(completion_script("bash"), HasSubstr(option.name));
      EXPECT_THAT(completion_script("zsh"), HasSubstr(option.name));
      const bool is_long = option.name.starts_with("--");
      EXPECT_THAT(completion_script("fish"),
                  HasSubstr(absl::StrCat(is_long ? "-l " : "-s ", option.name.substr(is_long ? 2 : 1))));
    }
  }
}

TEST(HelpPage, DocumentIsCurrent) {
  if (std::getenv("SLUICE_UPDATE_DOCS") != nullptr) std::ofstream(kCommandLine) << command_line_reference();
  std::ifstream file(kCommandLine);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, command_line_reference()) << "run this test with SLUICE_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace sluice
