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
  auto& references = resource->references.emplace();
  for (const KindInfo& each : kKinds) {
    references[static_cast<size_t>(each.kind)] = references_of(kind, resource->tree, each.kind);
  }
  return resource;
}

const std::shared_ptr<ResourceStore::Resources>& ResourceStore::none() {
  static const auto nothing = std::make_shared<Resources>();
  return nothing;
}

ResourceStore::ResourceStore(const ResourceStore& other) { *this = other; }

ResourceStore& ResourceStore::operator=(const ResourceStore& other) {
  if (this == &other) return *this;
  refused_ = other.refused_;
  for (size_t i = 0; i < all_.size(); ++i) {
    if (other.all_[i].is_own) other.all_[i].is_own = false;
    all_[i] = other.all_[i];
  }
  return *this;
}

void ResourceStore::share(ResourceKind kind, const ResourceStore& other) {
  const Kind& from = other.all_[static_cast<size_t>(kind)];
  if (from.is_own) from.is_own = false;
  all_[static_cast<size_t>(kind)] = from;
}

ResourceStore::Resources& ResourceStore::of(ResourceKind kind) {
  Kind& all = all_[static_cast<size_t>(kind)];
  if (!std::exchange(all.is_own, true)) all.resources = std::make_shared<Resources>(*all.resources);
  return *all.resources;
}

ResourcePointer ResourceStore::find(ResourceKind kind, std::string_view name) const {
  const Resources& resources = of(kind);
  const auto found = resources.find(name);
  return found == resources.end() ? nullptr : found->second;
}

bool ResourceStore::empty() const {
  return std::all_of(all_.begin(), all_.end(), [](const Kind& each) { return each.resources->empty(); });
}

std::set<std::string> references_of(ResourceKind owner, const Node& tree, ResourceKind kind) {
  std::set<std::string> names;
  if (owner != ResourceKind::kCluster && owner != ResourceKind::kListener) return names;
  if (kind == ResourceKind::kEndpoints) return owner == ResourceKind::kCluster ? endpoints_of(tree) : names;
  if (kind == ResourceKind::kRoutes && owner == ResourceKind::kListener) {
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
  if (kind == ResourceKind::kExtension && owner == ResourceKind::kListener) {
    each_map(tree, [&](const Node& map) {
      if (map.find("config_discovery") != nullptr) names.insert(text_of(map, "name"));
    });
  }
  return names;
}

bool refers_to(ResourceKind owner, const Resource& resource, const ResourceKey& other) {
  if (resource.references) return (*resource.references)[static_cast<size_t>(other.first)].contains(other.second);
  return references_of(owner, resource.tree, other.first).contains(other.second);
}

std::set<std::string> extensions_with_default(const Node& listener) {
  std::set<std::string> names;
  each_map(listener, [&](const Node& map) {
    const Node* const discovery = map.find("config_discovery");
    if (discovery != nullptr && text_of(*discovery, "apply_default_config_without_warming") == "true") {
      names.insert(text_of(map, "name"));
    }
  });
  return names;
}

bool has_references(ResourceKind owner, const Resource& resource, ResourceKind kind, const ResourceStore& store,
                    const std::set<std::string>& elsewhere) {
  const auto has = [&](const std::string& name) { return elsewhere.contains(name) || store.of(kind).contains(name); };
  if (resource.references) {
    const std::set<std::string>& names = (*resource.references)[static_cast<size_t>(kind)];
    return std::all_of(names.begin(), names.end(), has);
  }
  const std::set<std::string> names = references_of(owner, resource.tree, kind);
  return std::all_of(names.begin(), names.end(), has);
}

std::set<std::string> wanted_names(const ResourceStore& store, ResourceKind kind) {
  std::set<std::string> names;
  for (const ResourceKind owner : {ResourceKind::kCluster, ResourceKind::kListener}) {
    if (owner == ResourceKind::kCluster && kind == ResourceKind::kRoutes) continue;
    for (const auto& [name, resource] : store.of(owner)) {
      if (!resource->references) {
        names.merge(references_of(owner, resource->tree, kind));
        continue;
      }
      const std::set<std::string>& all = (*resource->references)[static_cast<size_t>(kind)];
      names.insert(all.begin(), all.end());
    }
  }
  return names;
}

const std::set<std::string>& WantedNames::of(const ResourceStore& store, ResourceKind kind) {
  Names& known = all_[static_cast<size_t>(kind)];
  if (!known.store || !known.store->shares(ResourceKind::kCluster, store) ||
      !known.store->shares(ResourceKind::kListener, store)) {
    known.names = wanted_names(store, kind);
    known.store.emplace();
    for (const ResourceKind owner : {ResourceKind::kCluster, ResourceKind::kListener}) known.store->share(owner, store);
  }
  return known.names;
}

}  // namespace sluice::xds
