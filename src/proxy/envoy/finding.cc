#include "proxy/envoy/finding.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"

namespace sluice::envoy {

std::string_view severity_text(Severity severity) { return severity == Severity::kRefused ? "refused" : "ignored"; }

std::string Finding::text() const {
  const std::string named = name.empty() ? kind : absl::StrCat(kind, " ", config::in_quotes(name));
  return absl::StrCat(named, ": ", path, path.empty() ? "" : ": ", severity_text(severity), ": ", message);
}

void Findings::add(Finding finding) {
  if (list_.size() < kMaxFindings) {
    if (!known_.insert(finding.text()).second) return;
    (finding.severity == Severity::kRefused ? refused_ : ignored_)++;
    list_.push_back(std::move(finding));
    return;
  }
  if (known_.contains(finding.text())) return;
  (finding.severity == Severity::kRefused ? refused_ : ignored_)++;
  ++left_out_;
}

}  // namespace sluice::envoy
