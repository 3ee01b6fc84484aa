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

std::string item_path(std::string_view list, size_t index) { return absl::StrCat(list, "[", index, "]"); }

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

uint32_t Report::add_file(std::string_view name) {
  files_.emplace_back(name);
  return static_cast<uint32_t>(files_.size() - 1);
}

std::vector<std::string> Report::sources() const {
  std::vector<std::string> sources = files_;
  sources.insert(sources.end(), patterns_.begin(), patterns_.end());
  return sources;
}

std::string Report::with_place(std::string_view path) const {
  const Mark mark = place_of(path);
  return mark.line == 0 ? std::string(path) : absl::StrCat(path, " (", place_text(mark), ")");
}

std::string Report::place_text(Mark mark) const {
  return files_.size() == 1 ? absl::StrCat(mark.line, ":", mark.column) : line_start(mark);
}

std::string Report::line_start(Mark mark) const {
  const std::string& name = files_[mark.file];
  return mark.line == 0 ? name : absl::StrCat(name, ":", mark.line, ":", mark.column);
}

std::vector<std::string> Report::warnings() const {
  std::vector<std::string> lines;
  for (const Finding& warning : warnings_) {
    lines.push_back(absl::StrCat(line_start(warning.mark), ": warning: ", warning.message));
  }
  return lines;
}

absl::Status Report::status() const {
  if (ok()) return absl::OkStatus();
  std::vector<const Finding*> sorted;
  for (const Finding& finding : findings_) sorted.push_back(&finding);
  // Findings at one position keep the order of discovery, which is the order of the vector.
  std::sort(sorted.begin(), sorted.end(),
            [](const Finding* a, const Finding* b) { return std::tie(a->mark, a) < std::tie(b->mark, b); });
  std::string text;
  for (const Finding* finding : sorted) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", line_start(finding->mark), ": ", finding->message);
  }
  if (left_out_ != 0) absl::StrAppend(&text, "\n", files_[0], ": and ", left_out_, " more");
  return absl::InvalidArgumentError(text);
}

}  // namespace sluice::config
