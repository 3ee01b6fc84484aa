#include "proxy/envoy/taken_paths.h"

#include <algorithm>
#include <string_view>

namespace sluice::envoy {
namespace {

bool is_odd(const PathSet& path) {
  return path.kind == PathSet::Kind::kAll || path.kind == PathSet::Kind::kRegex || path.any_case;
}

}  // namespace

void TakenPaths::add(const PathSet& path) {
  if (is_odd(path)) {
    odd_.push_back(all_.size());
  } else {
    by_text_[path.text].push_back(all_.size());
    lengths_.insert(path.text.size());
  }
  all_.push_back(path);
}

bool TakenPaths::take_all_of(const PathSet& path) const {
  const auto takes = [&](size_t index) { return overlap_of(path, all_[index]) == Overlap::kAll; };
  if (path.kind != PathSet::Kind::kAll && is_odd(path)) {
    return std::any_of(all_.begin(), all_.end(),
                       [&](const PathSet& each) { return overlap_of(path, each) == Overlap::kAll; });
  }
  if (std::any_of(odd_.begin(), odd_.end(), takes)) return true;
  // A set without a regular expression takes only paths that begin with its text.
  for (const size_t length : lengths_) {
    if (length > path.text.size()) break;
    const auto found = by_text_.find(std::string_view(path.text).substr(0, length));
    if (found != by_text_.end() && std::any_of(found->second.begin(), found->second.end(), takes)) return true;
  }
  return false;
}

}  // namespace sluice::envoy
