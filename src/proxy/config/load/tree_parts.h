// A configuration as a tree in parts, which configurations can share.
#pragma once

#include <memory>
#include <vector>

#include "proxy/config/load/yaml.h"

namespace sluice::config {

/// The tree of a configuration that a program has made. A part that is the same object as in another configuration has
/// the same value.
struct TreeParts {
  std::shared_ptr<const Node> rest;                    ///< All but `upstreams`.
  std::vector<std::shared_ptr<const Node>> upstreams;  ///< The items of `upstreams`.

  /// The whole tree.
  Node join() const;
};

}  // namespace sluice::config
