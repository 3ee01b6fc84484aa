#include "proxy/config/model/error_pages.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {

absl::StatusOr<StatusPattern> StatusPattern::parse(std::string_view text) {
  StatusPattern pattern;
  if (text == "4xx" || text == "5xx") {
    pattern.first_ = text == "4xx" ? 400 : 500;
    pattern.last_ = pattern.first_ + 99;
    return pattern;
  }
  if (text.size() != 3 || !absl::SimpleAtoi(text, &pattern.first_) || pattern.first_ < 400 || pattern.first_ > 599) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a status from 400 to 599, 4xx or 5xx, got ", in_quotes(text)));
  }
  pattern.last_ = pattern.first_;
  return pattern;
}

std::string StatusPattern::text() const {
  return first_ == last_ ? absl::StrCat(first_) : absl::StrCat(first_ / 100, "xx");
}

}  // namespace sluice::config
