// Envoy's rewriting of paths as `rewrite` and `redirect`.
#pragma once

#include <optional>
#include <string>

#include "proxy/envoy/message.h"
#include "proxy/envoy/route_match.h"

namespace sluice::envoy {

/// Writes to `out`, a `rewrite` or a `redirect`, that the part of a path that `matched` fits becomes `replacement`.
/// `now`: the paths of the route, which may be fewer. Returns false if that cannot be said.
bool put_prefix_change(const PathSet& matched, const std::string& replacement, const PathSet& now, config::Node& out);

/// Writes a RegexMatchAndSubstitute to `out`.
void put_regex_change(const Message& change, config::Node& out);

}  // namespace sluice::envoy
