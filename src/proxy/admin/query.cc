#include "proxy/admin/query.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proxy/common/suggestions.h"

namespace sluice {

absl::StatusOr<std::string> percent_decoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    std::string byte;
    if (i + 2 >= text.size() || !absl::HexStringToBytes(text.substr(i + 1, 2), &byte)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected two hexadecimal digits behind each %, got ", config::in_quotes(text)));
    }
    plain += byte;
    i += 2;
  }
  return plain;
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string_view piece : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const size_t equals = piece.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected NAME=VALUE in the query, got ", config::in_quotes(piece)));
    }
    absl::StatusOr<std::string> name = percent_decoded(piece.substr(0, equals));
    absl::StatusOr<std::string> value = percent_decoded(piece.substr(equals + 1));
    if (!name.ok()) return name.status();
    if (!value.ok()) return value.status();
    if (std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.first == *name; })) {
      return absl::InvalidArgumentError(absl::StrCat("the query has ", config::in_quotes(*name), " twice"));
    }
    all.emplace_back(*std::move(name), *std::move(value));
  }
  return all;
}

}  // namespace sluice
