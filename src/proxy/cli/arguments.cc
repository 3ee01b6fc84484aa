#include "proxy/cli/arguments.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/cli/failure.h"
#include "proxy/common/suggestions.h"

namespace sluice {

namespace {

absl::Status unknown_argument(const Command& command, std::string_view name) {
  std::vector<std::string_view> own;
  for (const CommandOption& option : command.options) own.push_back(option.name);
  std::string hint = config::did_you_mean(name, own);
  if (hint.empty() && name.starts_with('-')) {
    std::vector<std::string_view> others;
    for (const Command& other : all_commands()) {
      if (other.option(name)) others.push_back(other.name);
    }
    if (!others.empty()) hint = absl::StrCat("; it belongs to ", absl::StrJoin(others, ", "));
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown ", name.starts_with('-') ? "option " : "argument ",
                                                 config::in_quotes(name), " of ", command.name, hint));
}

// "arena or malloc", "auto, plain or incremental".
std::string in_a_row(std::span<const std::string_view> choices) {
  return absl::StrCat(absl::StrJoin(choices.first(choices.size() - 1), ", "), " or ", choices.back());
}

absl::Status check_choice(std::string_view name, std::string_view value, std::span<const std::string_view> choices) {
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " takes ", in_a_row(choices), ", got ", config::in_quotes(value)));
}

}  // namespace

absl::StatusOr<Arguments> Arguments::parse(const Command& command, std::span<const std::string_view> arguments) {
  Arguments parsed;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with('-')) {
      if (parsed.words_.size() == command.max_words) return unknown_argument(command, arguments[i]);
      const absl::Status known = check_choice(command.name, arguments[i], command.words);
      if (!known.ok()) return known;
      parsed.words_.push_back(arguments[i]);
      continue;
    }
    const size_t equals = arguments[i].starts_with("--") ? arguments[i].find('=') : std::string_view::npos;
    const bool has_value = equals != std::string_view::npos;
    const CommandOption* const option = command.option(arguments[i].substr(0, equals));
    if (!option) return unknown_argument(command, arguments[i].substr(0, equals));
    std::string_view value;
    if (option->value.empty()) {
      if (has_value) return absl::InvalidArgumentError(absl::StrCat(option->name, " takes no value"));
    } else if (has_value) {
      value = arguments[i].substr(equals + 1);
    } else if (++i < arguments.size()) {
      value = arguments[i];
    } else {
      return absl::InvalidArgumentError(absl::StrCat(option->name, " needs a value, ", option->value));
    }
    const absl::Status known = check_choice(option->name, value, option->choices);
    if (!known.ok()) return known;
    parsed.options_.emplace_back(option->name, value);
  }
  return parsed;
}

std::optional<std::string_view> Arguments::value(std::string_view option) const {
  const auto found =
      std::find_if(options_.rbegin(), options_.rend(), [&](const auto& each) { return each.first == option; });
  return found == options_.rend() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string_view> Arguments::values(std::string_view option) const {
  std::vector<std::string_view> all;
  for (const auto& [name, value] : options_) {
    if (name == option) all.push_back(value);
  }
  return all;
}

int fail_usage(std::string_view command, std::string_view message) {
  return fail(2, absl::StrCat(message, "\nsee `sluice ", command, " --help`"));
}

}  // namespace sluice
