#include "proxy/cli/help_page.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace sluice {

namespace {

constexpr size_t kColumns = 80;
// Terms that are longer have their meaning on the next line.
constexpr size_t kLongestTerm = 24;

// Appends the words of a text in lines that begin at a column. `column` is where the first word may stand.
void append_wrapped(std::string& page, std::string_view text, size_t indent, size_t column) {
  bool first = true;
  for (const std::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!first && column + 1 + word.size() > kColumns) {
      absl::StrAppend(&page, "\n", std::string(indent, ' '));
      column = indent;
      first = true;
    }
    absl::StrAppend(&page, first ? "" : " ", word);
    column += word.size() + (first ? 0 : 1);
    first = false;
  }
  page += '\n';
}

std::string term_of(const CommandOption& option) {
  return option.value.empty() ? std::string(option.name) : absl::StrCat(option.name, " ", option.value);
}

void append_list(std::string& page, const CommandList& list) {
  if (list.rows.empty()) return;
  size_t width = 0;
  for (const auto& row : list.rows) {
    if (row.term.size() <= kLongestTerm) width = std::max(width, row.term.size());
  }
  absl::StrAppend(&page, "\n", list.title, ":\n");
  const size_t indent = 2 + width + 2;
  for (const auto& row : list.rows) {
    absl::StrAppend(&page, "  ", row.term);
    const bool is_long = row.term.size() > width;
    absl::StrAppend(&page, is_long ? "\n" : "", std::string(is_long ? indent : indent - 2 - row.term.size(), ' '));
    append_wrapped(page, row.text, indent, indent);
  }
}

// The terms are in `terms`, which must outlive the list.
CommandList options_as_list(const Command& command, std::vector<std::string>& terms) {
  for (const CommandOption& option : command.options) terms.push_back(term_of(option));
  CommandList list{"Options", {}};
  for (size_t i = 0; i < terms.size(); ++i) list.rows.push_back({terms[i], command.options[i].text});
  return list;
}

std::string form_of(const Command& command, std::string_view usage) {
  return absl::StrCat("sluice ", command.name, usage.empty() ? "" : " ", usage);
}

void append_markdown(std::string& page, const CommandList& list) {
  if (list.rows.empty()) return;
  absl::StrAppend(&page, "\n| ", list.title, " | |\n|---|---|\n");
  for (const auto& row : list.rows) {
    absl::StrAppend(&page, "| `", absl::StrReplaceAll(row.term, {{"|", "\\|"}}), "` | ", row.text, " |\n");
  }
}

constexpr std::string_view kReferenceHead = R"(# The command line

`sluice COMMAND --help` prints the page of a command, `sluice help` all commands, and `sluice manual | man -l -` the man page.
Options are written `--name VALUE` or `--name=VALUE`. An error of the command line ends with the exit code 2 and the
command whose help to read; for an unknown command or option the error names the nearest one. All
[messages](messages.md#the-command-line).

Completions, for the current shell:

    source <(sluice completion bash)

The same line is for zsh; for fish it is `sluice completion fish | source`. The [package](../operating/deployment.md) installs
them and the man page.
)";

}  // namespace

std::string help_overview() {
  std::string page = "usage: sluice COMMAND [OPTIONS]\n\ncommands:\n";
  size_t width = 0;
  for (const Command& command : all_commands()) width = std::max(width, command.name.size());
  for (const Command& command : all_commands()) {
    absl::StrAppend(&page, "  sluice ", command.name, std::string(width + 2 - command.name.size(), ' '),
                    command.summary, "\n");
  }
  page += "\n`sluice COMMAND --help` describes a command.\n";
  return page;
}

std::string help_page(const Command& command) {
  std::string page = "usage:\n";
  for (const std::string_view usage : command.usage) absl::StrAppend(&page, "  ", form_of(command, usage), "\n");
  std::string summary(command.summary);
  summary[0] = static_cast<char>(summary[0] - 'a' + 'A');
  absl::StrAppend(&page, "\n", summary, ".\n");
  for (const std::string_view paragraph : absl::StrSplit(command.text, "\n\n", absl::SkipEmpty())) {
    page += '\n';
    append_wrapped(page, paragraph, 0, 0);
  }
  std::vector<std::string> terms;
  append_list(page, options_as_list(command, terms));
  for (const CommandList& list : command.lists) append_list(page, list);
  append_list(page, command.exit_codes);
  return page;
}

std::string command_line_reference() {
  std::string page(kReferenceHead);
  for (const Command& command : all_commands()) {
    absl::StrAppend(&page, "\n## sluice ", command.name, "\n\n");
    for (const std::string_view usage : command.usage) absl::StrAppend(&page, "    ", form_of(command, usage), "\n");
    absl::StrAppend(&page, "\n", command.text, "\n");
    std::vector<std::string> terms;
    append_markdown(page, options_as_list(command, terms));
    for (const CommandList& list : command.lists) append_markdown(page, list);
    append_markdown(page, command.exit_codes);
  }
  return page;
}

}  // namespace sluice
