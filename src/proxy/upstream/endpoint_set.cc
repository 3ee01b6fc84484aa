#include "proxy/upstream/endpoint_set.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "proxy/upstream/endpoint.h"
#include "proxy/upstream/stable_hash.h"

namespace sluice {

namespace {

void make_tables(const UpstreamState& upstream, EndpointSet::Level& level) {
  const config::Balance balance = upstream.config().balance;
  if (balance != config::Balance::kMaglev && balance != config::Balance::kRingHash) return;
  std::vector<HashMember> members;
  for (size_t i = 0; i < level.members.size(); ++i) {
    const uint32_t index = level.members[i];
    members.push_back({.id = level.ids[i], .weight = upstream.endpoint_config(index).weight, .index = index});
  }
  if (balance == config::Balance::kMaglev) {
    level.maglev = MaglevTable(std::move(members));
  } else {
    level.ring = HashRing(members);
  }
}

// A name that tells nobody the address, and is the same after a restart and in other processes.
uint64_t make_cookie_id(const UpstreamState& upstream, const std::string& address) {
  const std::string& secret = upstream.config().sticky->secret;
  const std::string_view keyed_by = secret.empty() ? std::string_view(upstream.config().name) : secret;
  const uint64_t key[2] = {stable_hash(keyed_by, 1), stable_hash(keyed_by, 2)};
  return SIPHASH_24(key, reinterpret_cast<const uint8_t*>(address.data()), address.size());
}

}  // namespace

uint32_t EndpointSet::Level::member_at(uint64_t weight) const {
  const auto found = std::upper_bound(weight_to.begin(), weight_to.end(), weight);
  return members[static_cast<size_t>(found - weight_to.begin())];
}

EndpointSet::EndpointSet(const UpstreamState& upstream) : cookie_id_of_(upstream.size()) {
  std::map<uint32_t, Level> by_priority;
  std::set<uint64_t> ids;
  for (uint32_t i = 0; i < upstream.size(); ++i) {
    if (!upstream.endpoint(i).present.load(std::memory_order_relaxed)) continue;
    const config::Endpoint& endpoint = upstream.endpoint_config(i);
    const std::string address = endpoint.address.text();
    uint64_t id = stable_hash(address);
    while (!ids.insert(id).second) id = mixed(id + 1);
    Level& level = by_priority[endpoint.priority];
    level.members.push_back(i);
    level.ids.push_back(id);
    level.weight_to.push_back((level.weight_to.empty() ? 0 : level.weight()) + endpoint.weight);
    if (!upstream.config().sticky) continue;
    cookie_id_of_[i] = make_cookie_id(upstream, address);
    cookie_ids_.emplace_back(cookie_id_of_[i], i);
  }
  for (auto& [priority, level] : by_priority) {
    make_tables(upstream, level);
    levels_.push_back(std::move(level));
  }
  std::sort(cookie_ids_.begin(), cookie_ids_.end());
}

std::optional<uint32_t> EndpointSet::find_cookie_id(uint64_t id) const {
  const auto found = std::lower_bound(cookie_ids_.begin(), cookie_ids_.end(), std::pair(id, uint32_t{0}));
  return found != cookie_ids_.end() && found->first == id ? std::optional(found->second) : std::nullopt;
}

}  // namespace sluice
