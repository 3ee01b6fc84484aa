// The commands of the program and their options, in one table. What is parsed, the pages of --help, the completions of
// shells, the man page and docs/reference/command-line.md are all made from it.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

/// An option of a command. Texts are whole sentences without line breaks; code in them is in backquotes.
struct CommandOption {
  std::string_view name;                       ///< With its dashes, such as "--config".
  std::string_view value = {};                 ///< Name of the value, such as "FILE". Empty: the option takes none.
  std::string_view text = {};                  ///< What it is for, with the default.
  std::vector<std::string_view> choices = {};  ///< The values that there are. Empty: any.
  bool is_file = false;                        ///< The value is the name of a file.
  bool repeats = false;                        ///< May be given more than once; else the last one counts.
};

/// A list of terms with their meanings, such as signals.
struct CommandList {
  struct Row {
    std::string_view term;
    std::string_view text;
  };
  std::string_view title;
  std::vector<Row> rows;
};

struct Command {
  std::string_view name;
  std::string_view summary;             ///< A few words for the overview, without a full stop.
  std::vector<std::string_view> usage;  ///< The forms of a call: what follows the name.
  std::string_view text;                ///< One paragraph, or several with an empty line between them.
  std::vector<CommandOption> options = {};
  std::vector<CommandList> lists = {};
  CommandList exit_codes = {};
  size_t max_words = 0;                      ///< The number of arguments that are no options.
  std::vector<std::string_view> words = {};  ///< The values of such arguments. Empty: any.

  /// Returns the option of that name, or null.
  const CommandOption* option(std::string_view wanted) const;
};

/// All commands, in the order of the overview.
std::span<const Command> all_commands();
/// Returns the command of that name, or null.
const Command* find_command(std::string_view name);
/// The names of all commands, for suggestions.
std::span<const std::string_view> command_names();

}  // namespace sluice
