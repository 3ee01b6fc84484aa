// Conditions of Envoy's routes as `match` of routes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/convert/common/path_set.h"
#include "proxy/envoy/message.h"
#include "proxy/envoy/yaml_writer.h"

namespace sluice::envoy {

using convert::canonical_path_text;
using convert::Overlap;
using convert::overlap_of;
using convert::PathSet;
using convert::quoted_regex;

struct RouteConditions {
  PathSet path;
  std::vector<std::string> methods;
  std::vector<std::string> peers;
  std::vector<std::string> sources;  ///< Ranges of addresses.
  config::Node headers = list_node();
  config::Node query = list_node();

  /// Whether only the path decides.
  bool is_path_only() const {
    return methods.empty() && peers.empty() && sources.empty() && headers.items.empty() && query.items.empty();
  }
  /// `match`, with these hosts; a map without keys if everything fits.
  config::Node match_node(const std::vector<std::string>& hosts) const;
};

/// Returns nothing if a condition has no counterpart, which a finding says: without it the route would take too much.
std::optional<RouteConditions> map_conditions(const Message& match);

/// Writes a StringMatcher to the keys of a condition. Returns false if it has no counterpart.
bool put_string_matcher(const Message& matcher, config::Node& out);

/// Envoy's host patterns as a configuration has them: a star of Envoy stands for one label or more, as `**` does.
std::vector<std::string> deep_hosts(std::vector<std::string> hosts);

}  // namespace sluice::envoy
