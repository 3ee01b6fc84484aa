#include "proxy/envoy/resource_set.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/envoy/message.h"

namespace sluice::envoy {
namespace {

using config::Node;

const Node* member_of(const Node& map, std::string_view name) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    if (snake_case(map.keys[i].text) == name) return &map.items[i];
  }
  return nullptr;
}

// The lists of a section of /config_dump, with the members that lead from an entry to its resource.
struct DumpList {
  std::string_view list;
  std::string_view resource;
  std::string_view type;
};
constexpr DumpList kDumpLists[] = {
    {"static_listeners", "listener", "envoy.config.listener.v3.Listener"},
    {"dynamic_listeners", "listener", "envoy.config.listener.v3.Listener"},
    {"static_route_configs", "route_config", "envoy.config.route.v3.RouteConfiguration"},
    {"dynamic_route_configs", "route_config", "envoy.config.route.v3.RouteConfiguration"},
    {"static_clusters", "cluster", "envoy.config.cluster.v3.Cluster"},
    {"dynamic_active_clusters", "cluster", "envoy.config.cluster.v3.Cluster"},
    {"static_endpoint_configs", "endpoint_config", "envoy.config.endpoint.v3.ClusterLoadAssignment"},
    {"dynamic_endpoint_configs", "endpoint_config", "envoy.config.endpoint.v3.ClusterLoadAssignment"},
    {"static_secrets", "secret", "envoy.extensions.transport_sockets.tls.v3.Secret"},
    {"dynamic_active_secrets", "secret", "envoy.extensions.transport_sockets.tls.v3.Secret"},
    {"ecds_filters", "ecds_filter", "envoy.config.core.v3.TypedExtensionConfig"},
};

void add_dump_section(const Node& section, ResourceSet& set) {
  for (const DumpList& dump : kDumpLists) {
    const Node* const list = member_of(section, dump.list);
    if (list == nullptr) continue;
    for (const Node& entry : list->items) {
      const Node* const active = member_of(entry, "active_state");
      const Node* const resource = member_of(active != nullptr ? *active : entry, dump.resource);
      if (resource != nullptr) set.add(dump.type, *resource);
    }
  }
}

}  // namespace

bool ResourceSet::add(std::string_view type, const Node& resource) {
  if (type == "envoy.config.listener.v3.Listener") {
    listeners.push_back(&resource);
  } else if (type == "envoy.config.route.v3.RouteConfiguration") {
    routes.push_back(&resource);
  } else if (type == "envoy.config.cluster.v3.Cluster") {
    clusters.push_back(&resource);
  } else if (type == "envoy.config.endpoint.v3.ClusterLoadAssignment") {
    endpoints.push_back(&resource);
  } else if (type == "envoy.extensions.transport_sockets.tls.v3.Secret") {
    secrets.push_back(&resource);
  } else if (type == "envoy.config.core.v3.TypedExtensionConfig") {
    extensions.push_back(&resource);
  } else if (type == "envoy.config.bootstrap.v3.Bootstrap") {
    bootstraps.push_back(&resource);
    const Node* const statics = member_of(resource, "static_resources");
    if (statics == nullptr) return true;
    const auto add_all = [&](std::string_view field, std::vector<const Node*>& to) {
      const Node* const list = member_of(*statics, field);
      for (size_t i = 0; list != nullptr && i < list->items.size(); ++i) to.push_back(&list->items[i]);
    };
    add_all("listeners", listeners);
    add_all("clusters", clusters);
    add_all("secrets", secrets);
  } else {
    return false;
  }
  return true;
}

bool ResourceSet::add_document(const Node& document, Findings& findings) {
  const auto refuse = [&](const Node& node, std::string message) {
    findings.add({.kind = "file", .name = "", .path = "", .message = std::move(message), .mark = node.mark});
    return false;
  };
  if (document.kind != Node::Kind::kMap) {
    return refuse(document, "expected static_resources, resources, or one resource with its @type");
  }
  if (const Node* const sections = member_of(document, "configs")) {
    for (const Node& section : sections->items) add_dump_section(section, *this);
    return true;
  }
  if (const Node* const resources = member_of(document, "resources")) {
    bool all = true;
    for (const Node& resource : resources->items) {
      const std::string type = resource.kind == Node::Kind::kMap ? type_of_any(resource) : "";
      if (!add(type, resource)) {
        all = refuse(resource, absl::StrCat("there is no counterpart of ", config::in_quotes(type), ", a resource"));
      }
    }
    return all;
  }
  if (const std::string type = type_of_any(document); !type.empty()) {
    return add(type, document) ||
           refuse(document, absl::StrCat("there is no counterpart of ", config::in_quotes(type)));
  }
  if (member_of(document, "static_resources") != nullptr || member_of(document, "dynamic_resources") != nullptr) {
    return add("envoy.config.bootstrap.v3.Bootstrap", document);
  }
  return refuse(document, "expected static_resources, resources, or one resource with its @type");
}

ResourceIndex::ResourceIndex(const std::vector<const Node*>& list, std::string_view name_field) {
  for (const Node* const each : list) {
    const Node* const name = each->kind == Node::Kind::kMap ? member_of(*each, name_field) : nullptr;
    if (name != nullptr) by_name_.emplace(name->text, each);
  }
}

const Node* ResourceIndex::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace sluice::envoy
