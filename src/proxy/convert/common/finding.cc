#include "proxy/convert/common/finding.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/convert/common/ordering.h"

namespace sluice::convert {

std::string_view severity_text(Severity severity) { return severity == Severity::kRefused ? "refused" : "ignored"; }

std::string Finding::text() const {
  const std::string named = name.empty() ? kind : absl::StrCat(kind, " ", config::in_quotes(name));
  return absl::StrCat(named, ": ", path, path.empty() ? "" : ": ", severity_text(severity), ": ", message);
}

void Findings::add(Finding finding) {
  // The same text in two places is two findings.
  const std::string key =
      absl::StrCat(finding.mark.file, ":", finding.mark.line, ":", finding.mark.column, ":", finding.text());
  if (list_.size() < kMaxFindings) {
    if (!known_.insert(key).second) return;
    (finding.severity == Severity::kRefused ? refused_ : ignored_)++;
    list_.push_back(std::move(finding));
    return;
  }
  if (known_.contains(key)) return;
  (finding.severity == Severity::kRefused ? refused_ : ignored_)++;
  ++left_out_;
}

void Findings::add_all(const Findings& others) {
  for (const Finding& each : others.list_) add(each);
  left_out_ += others.left_out_;
  // Of those that are not in the list, nobody knows more than the count.
  refused_ += others.refused_ - others.count_listed(Severity::kRefused);
  ignored_ += others.ignored_ - others.count_listed(Severity::kIgnored);
}

size_t Findings::count_listed(Severity severity) const {
  return static_cast<size_t>(
      std::count_if(list_.begin(), list_.end(), [&](const Finding& each) { return each.severity == severity; }));
}

void Findings::sort() {
  sort_in_order(list_, [](const Finding& a, const Finding& b) { return a.mark < b.mark; });
}

}  // namespace sluice::convert
