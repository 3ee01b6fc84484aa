// The rules that involve more than one key.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks the rules that involve several keys: names are unique and exist, addresses do not collide, marks are in
/// order, and routes are reachable. Findings go to `report` under the value's path.
void validate(const Config& config, Report& report);

/// What was found valid in an earlier configuration, and need not be checked again.
struct Checked {
  /// All but the upstreams is the same, and what was an upstream is one, with the same protocol.
  bool listeners = false;
  std::vector<bool> upstreams;  ///< By index: it is the same, wherever it was.
  /// By the name of the upstream: the path of an HTTP `forward` to it. Set by validate().
  std::map<std::string, std::string> http_forwards;
};
/// The same, but for what `checked` has already.
void validate(const Config& config, Report& report, Checked* checked);

}  // namespace sluice::config
