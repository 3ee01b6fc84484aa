#include "proxy/config/load/tree_parts.h"

#include <utility>

namespace sluice::config {

Node TreeParts::join() const {
  Node all = *rest;
  Node key, list;
  key.kind = Node::Kind::kScalar;
  key.text = "upstreams";
  list.kind = Node::Kind::kList;
  list.items.reserve(upstreams.size());
  for (const auto& each : upstreams) list.items.push_back(*each);
  all.keys.push_back(std::move(key));
  all.items.push_back(std::move(list));
  return all;
}

}  // namespace sluice::config
