#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/cli/command_table.h"

namespace sluice {

/// The arguments of a command, checked against the table of commands. Refers to the texts that were parsed.
class Arguments {
 public:
  /// Parses what follows the name of the command: options as `--name value` or `--name=value`, and other words. Returns
  /// InvalidArgument, for the user, if the command does not take them. Which options and words must be there is not
  /// checked.
  static absl::StatusOr<Arguments> parse(const Command& command, std::span<const std::string_view> arguments);

  bool has(std::string_view option) const { return value(option).has_value(); }
  /// The last value of an option; empty for an option without one; nullopt if it was not given.
  std::optional<std::string_view> value(std::string_view option) const;
  /// All values of an option, in order.
  std::vector<std::string_view> values(std::string_view option) const;
  /// The arguments that are no options.
  const std::vector<std::string_view>& words() const { return words_; }

 private:
  std::vector<std::pair<std::string_view, std::string_view>> options_;
  std::vector<std::string_view> words_;
};

/// Prints an error of the command line, with the command whose help to read. Returns the exit code.
int fail_usage(std::string_view command, std::string_view message);

}  // namespace sluice
