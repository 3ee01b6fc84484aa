// The resources that a control plane has given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proxy/config/load/yaml.h"
#include "proxy/xds/discovery.h"
#include "proxy/xds/resource_kind.h"

namespace sluice::xds {

/// One resource; immutable, shared by the stores that have it.
struct Resource {
  std::string name;
  std::string version;
  std::string bytes;  ///< The message.
  config::Node tree;  ///< The same, as the mapping reads it.
  /// How long it lives without a sign of life; nothing: until it changes.
  std::optional<uint64_t> ttl_ms = std::nullopt;
};
using ResourcePointer = std::shared_ptr<const Resource>;

/// How many values the resources of one response may have: 10,000 clusters with 10 endpoints each have half as many.
inline constexpr size_t kMaxResponseValues = size_t{1} << 21;

/// Reads a resource. `version` is that of the response. `values_left` is reduced by the values that it has.
absl::StatusOr<ResourcePointer> read_resource(ResourceKind kind, const SentResource& sent, std::string_view version,
                                              size_t& values_left);

/// The resources by kind and name. Copies share them.
class ResourceStore {
 public:
  using Resources = std::map<std::string, ResourcePointer, std::less<>>;

  Resources& of(ResourceKind kind) { return all_[static_cast<size_t>(kind)]; }
  const Resources& of(ResourceKind kind) const { return all_[static_cast<size_t>(kind)]; }
  /// Null if there is none.
  ResourcePointer find(ResourceKind kind, std::string_view name) const;
  bool empty() const;

 private:
  std::array<Resources, kResourceKindCount> all_;
};

/// The names of the resources of a kind that one resource refers to: endpoints of a cluster, routes of a listener,
/// secrets of both.
std::set<std::string> references_of(ResourceKind owner, const config::Node& tree, ResourceKind kind);

/// The names of a kind that all resources of a store refer to. Precondition: info_of(kind).by_name.
std::set<std::string> wanted_names(const ResourceStore& store, ResourceKind kind);

}  // namespace sluice::xds
