// The names of what the mapping has made.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace sluice::envoy {

/// The names of the upstreams in the result by those of the clusters.
using UpstreamNames = std::map<std::string, std::string, std::less<>>;
/// The names of Envoy's listeners by those of the listeners in the result.
using ListenerNames = std::map<std::string, std::string, std::less<>>;

}  // namespace sluice::envoy
