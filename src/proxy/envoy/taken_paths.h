#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proxy/envoy/route_match.h"

namespace sluice::envoy {

/// The paths that routes take whatever else a request has, so that no route after them gets a request with one of these
/// paths. A lookup takes time by the length of the path, not by the number of routes: hosts have thousands.
class TakenPaths {
 public:
  void add(const PathSet& path);
  /// Whether all paths of `path` are taken by one of those that were added.
  bool take_all_of(const PathSet& path) const;

 private:
  std::vector<PathSet> all_;
  std::vector<size_t> odd_;  // Those that a text does not find: indices of all_.
  absl::flat_hash_map<std::string, std::vector<size_t>> by_text_;
  std::set<size_t> lengths_;  // Of the texts.
};

}  // namespace sluice::envoy
