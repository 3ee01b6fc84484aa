#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/xds/resource_kind.h"
#include "proxy/xds/resource_store.h"

namespace sluice::xds {

/// When resources with a time to live are to be removed.
class Lifetimes {
 public:
  /// The resource has come, or a sign of life of it. Without `ttl_ms` it lives until it changes.
  void renew(ResourceKind kind, const std::string& name, std::optional<uint64_t> ttl_ms, uint64_t now_ms);
  /// Forgets what `store` does not have.
  void keep_only(const ResourceStore& store);
  /// Takes off those whose time is over.
  std::vector<ResourceKey> take_expired(uint64_t now_ms);
  /// When the next one expires; nothing if none does.
  std::optional<uint64_t> due_ms() const;

 private:
  std::map<ResourceKey, uint64_t> ends_;
};

}  // namespace sluice::xds
