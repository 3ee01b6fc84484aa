#include "proxy/config/model/host_pattern.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {
namespace {

constexpr size_t kMaxNameBytes = 253;  // RFC 1035 section 2.3.4, without the root
constexpr size_t kMaxLabelBytes = 63;

// Underscores are not valid in host names, but they occur in SNI and do no harm.
bool is_label(std::string_view label) {
  const auto fits = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_'; };
  return !label.empty() && label.size() <= kMaxLabelBytes && std::all_of(label.begin(), label.end(), fits);
}

bool is_name(std::string_view name) {
  if (name.size() > kMaxNameBytes) return false;
  const std::vector<std::string_view> labels = absl::StrSplit(name, '.');
  return std::all_of(labels.begin(), labels.end(), is_label);
}

}  // namespace

absl::StatusOr<HostPattern> HostPattern::parse(std::string_view text) {
  std::string_view name = text;
  if (!absl::ConsumePrefix(&name, "**.")) absl::ConsumePrefix(&name, "*.");
  if (!is_name(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a server name such as a.example.com, \"*.example.com\" or \"**.example.com\", got ",
                     in_quotes(text)));
  }
  HostPattern pattern;
  pattern.text_ = absl::AsciiStrToLower(text);
  return pattern;
}

}  // namespace sluice::config
