#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::xds {

/// The kinds of resources, in the order in which they are requested: what others refer to comes first.
enum class ResourceKind : uint8_t { kCluster, kEndpoints, kListener, kRoutes, kSecret, kExtension };
inline constexpr size_t kResourceKindCount = 6;

/// A resource.
using ResourceKey = std::pair<ResourceKind, std::string>;
using ResourceKeys = std::set<ResourceKey>;

struct KindInfo {
  ResourceKind kind;
  std::string_view label;       ///< For messages.
  std::string_view one_label;   ///< Of one of them, in the findings of the mapping.
  std::string_view type;        ///< The full name of the message.
  std::string_view name_field;  ///< The field that has the resource's name.
  bool by_name;                 ///< Requested by name; else all that there are.
};

inline constexpr std::array<KindInfo, kResourceKindCount> kKinds = {{
    {ResourceKind::kCluster, "clusters", "cluster", "envoy.config.cluster.v3.Cluster", "name", false},
    {ResourceKind::kEndpoints, "endpoints", "endpoints", "envoy.config.endpoint.v3.ClusterLoadAssignment",
     "cluster_name", true},
    {ResourceKind::kListener, "listeners", "listener", "envoy.config.listener.v3.Listener", "name", false},
    {ResourceKind::kRoutes, "routes", "route configuration", "envoy.config.route.v3.RouteConfiguration", "name", true},
    {ResourceKind::kSecret, "secrets", "secret", "envoy.extensions.transport_sockets.tls.v3.Secret", "name", true},
    {ResourceKind::kExtension, "extensions", "extension configuration", "envoy.config.core.v3.TypedExtensionConfig",
     "name", true},
}};

constexpr const KindInfo& info_of(ResourceKind kind) { return kKinds[static_cast<size_t>(kind)]; }

/// The kind of a type, with or without a host in front; none if it is of no kind.
constexpr std::optional<ResourceKind> kind_of_type(std::string_view type_url) {
  const size_t slash = type_url.rfind('/');
  const std::string_view type = slash == std::string_view::npos ? type_url : type_url.substr(slash + 1);
  for (const KindInfo& each : kKinds) {
    if (each.type == type) return each.kind;
  }
  return std::nullopt;
}

}  // namespace sluice::xds
