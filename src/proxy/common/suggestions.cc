#include "proxy/common/suggestions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/utf8.h"

namespace sluice::config {
namespace {

constexpr size_t kMaxQuotedBytes = 80;
// No known name is longer. This also bounds the quadratic work on keys in a hostile file.
constexpr size_t kMaxGuessedBytes = 64;

// The optimal string alignment distance, computed with three rows.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, above[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string in_quotes(std::string_view text) {
  const bool cut = text.size() > kMaxQuotedBytes;
  text = utf8_beginning(text, kMaxQuotedBytes);
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text), cut ? "..." : "", "\"");
}

std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.empty() || word.size() > kMaxGuessedBytes) return std::nullopt;
  std::optional<std::string_view> best;
  // Allows one edit per three letters: "tco" is close to "tcp", "http" is not.
  size_t limit = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t longer = std::max(word.size(), candidate.size());
    const size_t shorter = std::min(word.size(), candidate.size());
    if (longer - shorter >= limit) continue;  // the distance is at least the difference of the lengths
    const size_t distance = edit_distance(word, candidate);
    if (distance < limit && distance < longer) {
      limit = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  const std::optional<std::string_view> guess = nearest(word, candidates);
  return guess ? absl::StrCat("; did you mean ", in_quotes(*guess), "?") : "";
}

}  // namespace sluice::config
