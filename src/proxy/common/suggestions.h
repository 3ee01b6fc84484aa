// Words for messages: quoting what a user wrote, and guessing what was meant.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice::config {

/// `text` in double quotes, control bytes escaped, and cut after 80 bytes: a finding stays one short line.
std::string in_quotes(std::string_view text);

/// The candidate that `word` most probably was meant to be, by edit distance (a swap of neighbours counts as one edit);
/// nullopt if none is near enough to be worth a guess. The result points into `candidates`.
std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> candidates);

/// `; did you mean "X"?` for the nearest candidate, or "" if there is none.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace sluice::config
