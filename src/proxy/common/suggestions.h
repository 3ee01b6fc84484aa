// Helpers for error messages: quoting user input, and suggesting what the user may have meant.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice::config {

/// Returns `text` in double quotes, with control bytes escaped and cut after 80 bytes, so that a message stays one
/// short line.
std::string in_quotes(std::string_view text);

/// Returns the candidate that is nearest to `word` by edit distance (a swap of adjacent characters counts as one edit),
/// or nullopt if none is near enough to suggest. The result points into `candidates`.
std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> candidates);

/// Returns `; did you mean "X"?` with the nearest candidate, or "" if there is none.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace sluice::config
