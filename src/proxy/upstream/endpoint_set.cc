#include "proxy/upstream/endpoint_set.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "proxy/upstream/stable_hash.h"

namespace sluice {

namespace {

void make_tables(config::Balance balance, EndpointSet::Level& level) {
  if (balance != config::Balance::kMaglev && balance != config::Balance::kRingHash) return;
  std::vector<HashMember> members;
  for (size_t i = 0; i < level.members.size(); ++i) {
    members.push_back({.id = level.ids[i], .weight = level.weight_of(i), .index = level.members[i]});
  }
  if (balance == config::Balance::kMaglev) {
    level.maglev = MaglevTable(std::move(members));
  } else {
    level.ring = HashRing(members);
  }
}

// An id that does not reveal the address, and is the same after a restart and in other processes.
uint64_t make_cookie_id(const config::Upstream& upstream, std::string_view address) {
  const std::string& secret = upstream.sticky->secret;
  const std::string_view keyed_by = secret.empty() ? std::string_view(upstream.name) : secret;
  const uint64_t key[2] = {stable_hash(keyed_by, 1), stable_hash(keyed_by, 2)};
  return SIPHASH_24(key, reinterpret_cast<const uint8_t*>(address.data()), address.size());
}

}  // namespace

uint32_t EndpointSet::Level::member_at(uint64_t weight) const {
  const auto found = std::upper_bound(weight_to.begin(), weight_to.end(), weight);
  return members[static_cast<size_t>(found - weight_to.begin())];
}

uint64_t EndpointSet::Level::id_of(uint32_t slot) const {
  const auto found = std::lower_bound(members.begin(), members.end(), slot);
  return ids[static_cast<size_t>(found - members.begin())];
}

EndpointSet::EndpointSet(const config::Upstream& config, size_t slot_count, std::span<const Endpoint> endpoints,
                         uint64_t generation)
    : generation_(generation), cookie_id_of_(slot_count) {
  std::map<uint32_t, Level> by_priority;
  std::set<uint64_t> ids;
  for (const Endpoint& endpoint : endpoints) {
    members_.push_back(endpoint.slot);
    uint64_t id = stable_hash(endpoint.address);
    while (!ids.insert(id).second) id = mixed(id + 1);
    Level& level = by_priority[endpoint.priority];
    level.members.push_back(endpoint.slot);
    level.ids.push_back(id);
    level.equal_weights &= level.weight_to.empty() || endpoint.weight == level.weight_of(0);
    level.weight_to.push_back((level.weight_to.empty() ? 0 : level.weight()) + endpoint.weight);
    if (!config.sticky) continue;
    const uint64_t cookie_id = make_cookie_id(config, endpoint.address);
    cookie_id_of_[endpoint.slot] = cookie_id;
    cookie_ids_.emplace_back(cookie_id, endpoint.slot);
  }
  for (auto& [priority, level] : by_priority) {
    make_tables(config.balance, level);
    levels_.push_back(std::move(level));
  }
  std::sort(cookie_ids_.begin(), cookie_ids_.end());
}

std::optional<uint32_t> EndpointSet::find_cookie_id(uint64_t id) const {
  const auto found = std::lower_bound(cookie_ids_.begin(), cookie_ids_.end(), std::pair(id, uint32_t{0}));
  return found != cookie_ids_.end() && found->first == id ? std::optional(found->second) : std::nullopt;
}

}  // namespace sluice
