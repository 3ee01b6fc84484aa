#include "proxy/xds/resource_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/envoy/proto_tree.h"

namespace sluice::xds {
namespace {

using config::Node;

std::string text_of(const Node& map, std::string_view key) {
  const Node* const value = map.kind == Node::Kind::kMap ? map.find(key) : nullptr;
  return value != nullptr ? value->text : std::string();
}

// Calls `visit` with each map in the tree.
template <class Visit>
void each_map(const Node& node, const Visit& visit) {
  if (node.kind == Node::Kind::kMap) visit(node);
  for (const Node& item : node.items) each_map(item, visit);
}

std::set<std::string> endpoints_of(const Node& cluster) {
  if (text_of(cluster, "type") != "EDS") return {};
  const Node* const config = cluster.find("eds_cluster_config");
  std::string name = config != nullptr ? text_of(*config, "service_name") : std::string();
  return {name.empty() ? text_of(cluster, "name") : name};
}

}  // namespace

absl::StatusOr<ResourcePointer> read_resource(ResourceKind kind, const SentResource& sent, std::string_view version,
                                              size_t& values_left) {
  const KindInfo& info = info_of(kind);
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(info.label, sent.name.empty() ? "" : " ", sent.name, ": ", why));
  };
  if (kind_of_type(sent.type) != kind) return refuse(absl::StrCat("expected ", info.type, ", got ", sent.type));
  if (sent.has_bad_ttl) return refuse("its time to live (ttl) is no duration");
  auto resource = std::make_shared<Resource>();
  if (const absl::Status read = envoy::read_message(info.type, sent.bytes, values_left, resource->tree); !read.ok()) {
    return refuse(read.message());
  }
  resource->name = text_of(resource->tree, info.name_field);
  if (resource->name.empty()) resource->name = std::string(sent.name);
  if (resource->name.empty()) return refuse(absl::StrCat(info.name_field, " is missing"));
  resource->version = std::string(sent.version.empty() ? version : sent.version);
  resource->bytes = std::string(sent.bytes);
  resource->ttl_ms = sent.ttl_ms;
  return resource;
}

ResourcePointer ResourceStore::find(ResourceKind kind, std::string_view name) const {
  const Resources& resources = of(kind);
  const auto found = resources.find(name);
  return found == resources.end() ? nullptr : found->second;
}

bool ResourceStore::empty() const {
  return std::all_of(all_.begin(), all_.end(), [](const Resources& each) { return each.empty(); });
}

std::set<std::string> references_of(ResourceKind owner, const Node& tree, ResourceKind kind) {
  std::set<std::string> names;
  if (kind == ResourceKind::kEndpoints) return owner == ResourceKind::kCluster ? endpoints_of(tree) : names;
  if (kind == ResourceKind::kRoutes) {
    each_map(tree, [&](const Node& map) {
      if (map.find("config_source") != nullptr && map.find("route_config_name") != nullptr) {
        names.insert(text_of(map, "route_config_name"));
      }
    });
  }
  if (kind == ResourceKind::kSecret) {
    each_map(tree, [&](const Node& map) {
      if (map.find("sds_config") != nullptr) names.insert(text_of(map, "name"));
    });
  }
  return names;
}

std::set<std::string> wanted_names(const ResourceStore& store, ResourceKind kind) {
  std::set<std::string> names;
  for (const ResourceKind owner : {ResourceKind::kCluster, ResourceKind::kListener}) {
    for (const auto& [name, resource] : store.of(owner)) names.merge(references_of(owner, resource->tree, kind));
  }
  return names;
}

}  // namespace sluice::xds
