#include "proxy/config/model/error_text.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {

namespace {

// In the order of ErrorVariable, from kStatus on.
constexpr std::array<std::string_view, 5> kNames = {"status", "reason", "message", "request_id", "trace_id"};

}  // namespace

absl::StatusOr<ErrorText> ErrorText::parse(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat("expected a body of at most 64KiB, got ", text.size(), " bytes"));
  }
  ErrorText parsed;
  parsed.text_ = std::string(text);
  size_t variables = 0;
  while (!text.empty()) {
    const size_t begin = std::min(text.find("%{"), text.size());
    if (begin > 0) parsed.pieces_.push_back({ErrorVariable::kNone, std::string(text.substr(0, begin))});
    text.remove_prefix(begin);
    if (text.empty()) break;
    const size_t end = text.find('}');
    if (end == std::string_view::npos) return absl::InvalidArgumentError("expected a `}` behind `%{`");
    const std::string_view name = text.substr(2, end - 2);
    const auto* const found = std::find(kNames.begin(), kNames.end(), name);
    if (found == kNames.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no variable ", in_quotes(name), " of errors; they are ", absl::StrJoin(kNames, ", ")));
    }
    parsed.pieces_.push_back({static_cast<ErrorVariable>(found - kNames.begin() + 1), ""});
    text.remove_prefix(end + 1);
    if (++variables > kMaxVariables) {
      return absl::InvalidArgumentError(absl::StrCat("expected at most ", kMaxVariables, " variables"));
    }
  }
  return parsed;
}

}  // namespace sluice::config
