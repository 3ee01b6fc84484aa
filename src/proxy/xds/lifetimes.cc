#include "proxy/xds/lifetimes.h"

#include <algorithm>

namespace sluice::xds {

void Lifetimes::renew(ResourceKind kind, const std::string& name, std::optional<uint64_t> ttl_ms, uint64_t now_ms) {
  if (ttl_ms) {
    ends_.insert_or_assign({kind, name}, now_ms + *ttl_ms);
  } else {
    ends_.erase({kind, name});
  }
}

void Lifetimes::keep_only(const ResourceStore& store) {
  std::erase_if(ends_, [&](const auto& each) { return store.find(each.first.first, each.first.second) == nullptr; });
}

std::vector<ResourceKey> Lifetimes::take_expired(uint64_t now_ms) {
  std::vector<ResourceKey> expired;
  for (auto each = ends_.begin(); each != ends_.end();) {
    if (each->second > now_ms) {
      ++each;
      continue;
    }
    expired.push_back(each->first);
    each = ends_.erase(each);
  }
  return expired;
}

std::optional<uint64_t> Lifetimes::due_ms() const {
  std::optional<uint64_t> due;
  for (const auto& [key, end] : ends_) due = std::min(due.value_or(UINT64_MAX), end);
  return due;
}

}  // namespace sluice::xds
