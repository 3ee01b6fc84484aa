#include "proxy/cli/completion.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proxy/cli/command_table.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

constexpr std::string_view kHelp = "--help";
constexpr std::string_view kHelpText = "prints the page of the command";

// The values of a command's arguments that are no options.
std::span<const std::string_view> words_of(const Command& command) {
  return command.name == "help" ? command_names() : command.words;
}

// The first sentence, for a list of choices, without the full stop.
std::string_view brief(std::string_view text) {
  const size_t end = text.find(". ");
  if (end != std::string_view::npos) return text.substr(0, end);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

// ---- bash

constexpr std::string_view kBashHead = R"(# Completions of sluice for bash.
_sluice() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words=
  COMPREPLY=()
  # bash takes `--name=value` for three words.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if ((COMP_CWORD == 1)); then
)";

std::string bash_case(const Command& command) {
  std::string files, free, text;
  std::vector<std::string_view> names;
  for (const CommandOption& option : command.options) {
    names.push_back(option.name);
    if (option.value.empty()) continue;
    if (!option.choices.empty()) {
      absl::StrAppend(&text, "    ", command.name, ":", option.name, ") words='", absl::StrJoin(option.choices, " "),
                      "' ;;\n");
    } else {
      std::string& same = option.is_file ? files : free;
      absl::StrAppend(&same, same.empty() ? "" : " | ", command.name, ":", option.name);
    }
  }
  names.push_back(kHelp);
  if (!files.empty()) {
    absl::StrAppend(&text, "    ", files,
                    ")\n      compopt -o filenames\n      mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
                    "      return\n      ;;\n");
  }
  if (!free.empty()) absl::StrAppend(&text, "    ", free, ") return ;;\n");
  absl::StrAppend(&text, "    ", command.name, ":*) words='", absl::StrJoin(names, " "), "'");
  if (!words_of(command).empty()) {
    absl::StrAppend(&text, "; [[ $word == -* ]] || words='", absl::StrJoin(words_of(command), " "), "'");
  }
  text += " ;;\n";
  return text;
}

std::string bash_script() {
  std::string script(kBashHead);
  absl::StrAppend(&script, "    words='", absl::StrJoin(command_names(), " "),
                  "'\n  else\n    case ${COMP_WORDS[1]}:$before in\n");
  for (const Command& command : all_commands()) script += bash_case(command);
  script +=
      "    esac\n  fi\n  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n}\ncomplete -F _sluice sluice\n";
  return script;
}

// ---- zsh

// A description in a specification of _arguments, in single quotes.
std::string zsh_text(std::string_view text) {
  return absl::StrReplaceAll(text, {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}, {"`", ""}});
}

std::string zsh_option(const CommandOption& option) {
  std::string spec = absl::StrCat("'", option.repeats ? "*" : "", option.name);
  if (!option.value.empty()) spec += option.name.starts_with("--") ? "=" : "+";
  absl::StrAppend(&spec, "[", zsh_text(brief(option.text)), "]");
  if (!option.value.empty()) {
    const std::string value = option.is_file           ? "_files"
                              : option.choices.empty() ? " "
                                                       : absl::StrCat("(", absl::StrJoin(option.choices, " "), ")");
    absl::StrAppend(&spec, ":", zsh_text(absl::StrReplaceAll(option.value, {{"'", ""}})), ":", value);
  }
  return spec + "'";
}

std::string zsh_script() {
  std::string script =
      "#compdef sluice\n# Completions of sluice for zsh.\n_sluice() {\n  local -a commands\n  commands=(\n";
  for (const Command& command : all_commands()) {
    absl::StrAppend(&script, "    '", command.name, ":", zsh_text(command.summary), "'\n");
  }
  absl::StrAppend(&script,
                  "  )\n  if ((CURRENT == 2)); then\n    _describe -t commands command commands\n    return\n  fi\n"
                  "  shift words\n  ((CURRENT--))\n  case $words[1] in\n");
  for (const Command& command : all_commands()) {
    absl::StrAppend(&script, "    ", command.name, ")\n      _arguments");
    for (const CommandOption& option : command.options) absl::StrAppend(&script, " \\\n        ", zsh_option(option));
    absl::StrAppend(&script, " \\\n        '", kHelp, "[", kHelpText, "]'");
    if (!words_of(command).empty()) {
      absl::StrAppend(&script, " \\\n        '1:argument:(", absl::StrJoin(words_of(command), " "), ")'");
    }
    script += "\n      ;;\n";
  }
  script +=
      "  esac\n}\nif [[ $funcstack[1] == _sluice ]]; then\n  _sluice \"$@\"\nelse\n  compdef _sluice sluice\nfi\n";
  return script;
}

// ---- fish

std::string fish_text(std::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}, {"`", ""}});
}

std::string fish_script() {
  std::string script = "# Completions of sluice for fish.\ncomplete -c sluice -f\n";
  for (const Command& command : all_commands()) {
    absl::StrAppend(&script, "complete -c sluice -n __fish_use_subcommand -a ", command.name, " -d '",
                    fish_text(command.summary), "'\n");
  }
  for (const Command& command : all_commands()) {
    const std::string begin = absl::StrCat("complete -c sluice -n '__fish_seen_subcommand_from ", command.name,
                                           "; and test (commandline -opc)[2] = ", command.name, "'");
    for (const CommandOption& option : command.options) {
      const bool is_long = option.name.starts_with("--");
      absl::StrAppend(&script, begin, is_long ? " -l " : " -s ", option.name.substr(is_long ? 2 : 1));
      if (option.is_file) {
        script += " -r -F";
      } else if (!option.choices.empty()) {
        absl::StrAppend(&script, " -x -a '", absl::StrJoin(option.choices, " "), "'");
      } else if (!option.value.empty()) {
        script += " -x";
      }
      absl::StrAppend(&script, " -d '", fish_text(brief(option.text)), "'\n");
    }
    absl::StrAppend(&script, begin, " -l ", kHelp.substr(2), " -d '", kHelpText, "'\n");
    if (!words_of(command).empty()) {
      absl::StrAppend(&script, begin, " -a '", absl::StrJoin(words_of(command), " "), "'\n");
    }
  }
  return script;
}

}  // namespace

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  SLUICE_CHECK(shell == "fish");
  return fish_script();
}

}  // namespace sluice
