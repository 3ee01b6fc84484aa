#include "proxy/config/load/scalar.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {

absl::StatusOr<size_t> parse_word(std::string_view text, std::span<const std::string_view> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == text) return i;
  }
  return absl::InvalidArgumentError(absl::StrCat("expected ", words.size() == 1 ? "" : "one of ",
                                                 absl::StrJoin(words, ", "), ", got ", in_quotes(text),
                                                 did_you_mean(text, words)));
}

std::string list_words(std::span<const std::string_view> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", "`", words[i], "`");
  }
  return text;
}

absl::StatusOr<bool> Scalar<bool>::parse(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return absl::InvalidArgumentError(absl::StrCat("expected true or false, got ", in_quotes(text)));
}

absl::StatusOr<AutoCount> Scalar<AutoCount>::parse(std::string_view text) {
  if (text == "auto") return AutoCount{};
  const absl::StatusOr<uint32_t> count = parse_count(text);
  if (count.ok()) return AutoCount{*count};
  return absl::InvalidArgumentError(absl::StrCat("expected auto or a whole number, got ", in_quotes(text)));
}

}  // namespace sluice::config
