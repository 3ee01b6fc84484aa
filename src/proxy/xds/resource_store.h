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
  /// By kind: the names of the resources that it refers to. Nothing: not known, see references_of().
  std::optional<std::array<std::set<std::string>, kResourceKindCount>> references = std::nullopt;
};
using ResourcePointer = std::shared_ptr<const Resource>;

/// How many values the resources of one response may have: 10,000 clusters with 10 endpoints each have half as many.
inline constexpr size_t kMaxResponseValues = size_t{1} << 21;

/// Reads a resource. `version` is that of the response. `values_left` is reduced by the values that it has.
absl::StatusOr<ResourcePointer> read_resource(ResourceKind kind, const SentResource& sent, std::string_view version,
                                              size_t& values_left);

/// The resources by kind and name. A copy costs nothing until one of the two changes, and then as much as one kind.
class ResourceStore {
 public:
  using Resources = std::map<std::string, ResourcePointer, std::less<>>;

  ResourceStore() = default;
  ResourceStore(const ResourceStore& other);
  ResourceStore& operator=(const ResourceStore& other);
  ResourceStore(ResourceStore&&) = default;
  ResourceStore& operator=(ResourceStore&&) = default;
  ~ResourceStore() = default;

  /// To be changed: the const one is cheaper.
  Resources& of(ResourceKind kind);
  const Resources& of(ResourceKind kind) const { return *all_[static_cast<size_t>(kind)].resources; }
  /// Whether the two have the resources of this kind in common. False says nothing.
  bool shares(ResourceKind kind, const ResourceStore& other) const { return &of(kind) == &other.of(kind); }
  /// Takes over the resources of one kind.
  void share(ResourceKind kind, const ResourceStore& other);
  /// Null if there is none.
  ResourcePointer find(ResourceKind kind, std::string_view name) const;
  bool empty() const;
  /// What the control plane has sent, cannot be used, and is in no earlier version either. Nobody should wait for it.
  ResourceKeys& refused() { return refused_; }
  const ResourceKeys& refused() const { return refused_; }

 private:
  struct Kind {
    std::shared_ptr<Resources> resources = none();
    mutable bool is_own = false;  // No copy has them. Not the count of the pointer, which other threads may change.
  };
  static const std::shared_ptr<Resources>& none();

  std::array<Kind, kResourceKindCount> all_;
  ResourceKeys refused_;
};

/// The names of the resources of a kind that one resource refers to: endpoints of a cluster, routes and extensions of a
/// listener, secrets of both.
std::set<std::string> references_of(ResourceKind owner, const config::Node& tree, ResourceKind kind);
/// Whether a resource refers to another one.
bool refers_to(ResourceKind owner, const Resource& resource, const ResourceKey& other);

/// Those extensions of a listener that have a default configuration, to be used until theirs has come.
std::set<std::string> extensions_with_default(const config::Node& listener);
/// Whether `store` has all of them, but for those of `elsewhere`.
bool has_references(ResourceKind owner, const Resource& resource, ResourceKind kind, const ResourceStore& store,
                    const std::set<std::string>& elsewhere);

/// The names of a kind that all resources of a store refer to. Precondition: info_of(kind).by_name.
std::set<std::string> wanted_names(const ResourceStore& store, ResourceKind kind);

/// The same, of stores that often have the same clusters and listeners.
class WantedNames {
 public:
  /// Valid until the next call.
  const std::set<std::string>& of(const ResourceStore& store, ResourceKind kind);

 private:
  struct Names {
    std::optional<ResourceStore> store;  // That they are of: clusters and listeners.
    std::set<std::string> names;
  };
  std::array<Names, kResourceKindCount> all_;
};

}  // namespace sluice::xds
