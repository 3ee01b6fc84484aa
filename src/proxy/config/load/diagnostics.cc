#include "proxy/config/load/diagnostics.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sluice::config {
namespace {

// Whether `inner` is the value at `outer` or a part of it.
bool is_within(std::string_view outer, std::string_view inner) {
  if (outer.empty()) return true;
  if (!absl::StartsWith(inner, outer)) return false;
  return inner.size() == outer.size() || inner[outer.size()] == '.' || inner[outer.size()] == '[';
}

// The path of the value that contains the one at `path`. Precondition: `path` is not empty.
std::string_view around(std::string_view path) {
  const size_t end = path.find_last_of(".[");
  return path.substr(0, end == std::string_view::npos ? 0 : end);
}

}  // namespace

Mark Report::place_of(std::string_view path) const {
  while (true) {
    const auto found = places_.find(std::string(path));
    if (found != places_.end()) return found->second;
    if (path.empty()) return Mark{};
    path = around(path);
  }
}

bool Report::is_consequence(std::string_view path) const {
  for (const Finding& finding : findings_) {
    if (is_within(path, finding.path)) return true;
  }
  while (!ignored_.contains(std::string(path))) {
    if (path.empty()) return false;
    path = around(path);
  }
  return true;
}

void Report::error(std::string_view path, std::string_view message) {
  if (is_consequence(path)) return;
  error_at(place_of(path), path, path.empty() ? std::string(message) : absl::StrCat(path, ": ", message));
}

void Report::error_at(Mark mark, std::string_view path, std::string_view message) {
  if (is_full()) {
    ++left_out_;
    return;
  }
  findings_.push_back({mark, std::string(path), std::string(message)});
}

void Report::warn(std::string_view path, std::string_view message) {
  warnings_.push_back({place_of(path), std::string(path), absl::StrCat(path, ": ", message)});
}

std::string Report::place_text(std::string_view name, Mark mark) {
  return mark.line == 0 ? std::string(name) : absl::StrCat(name, ":", mark.line, ":", mark.column);
}

std::vector<std::string> Report::warnings(std::string_view name) const {
  std::vector<std::string> lines;
  for (const Finding& warning : warnings_) {
    lines.push_back(absl::StrCat(place_text(name, warning.mark), ": warning: ", warning.message));
  }
  return lines;
}

absl::Status Report::status(std::string_view name) const {
  if (ok()) return absl::OkStatus();
  std::vector<const Finding*> sorted;
  for (const Finding& finding : findings_) sorted.push_back(&finding);
  // Findings at one position keep the order of discovery, which is the order of the vector.
  std::sort(sorted.begin(), sorted.end(),
            [](const Finding* a, const Finding* b) { return std::tie(a->mark, a) < std::tie(b->mark, b); });
  std::string text;
  for (const Finding* finding : sorted) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", place_text(name, finding->mark), ": ", finding->message);
  }
  if (left_out_ != 0) absl::StrAppend(&text, "\n", name, ": and ", left_out_, " more");
  return absl::InvalidArgumentError(text);
}

}  // namespace sluice::config
