#include "proxy/config/model/address_groups.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

namespace {

// Equal for listeners with the same addresses. Where the kernel chooses the port, no other one has it.
std::string key_for(const Listener& listener) {
  std::vector<std::string> texts;
  for (const Address& address : listener.addresses) {
    const bool chosen = !address.is_set() || (address.kind() != Address::Kind::kUnix && address.port() == 0);
    texts.push_back(chosen ? absl::StrCat("#", listener.name) : address.text());
  }
  std::sort(texts.begin(), texts.end());
  return absl::StrJoin(texts, " ");
}

}  // namespace

AddressGroups::AddressGroups(const std::vector<Listener>& listeners) {
  absl::flat_hash_map<std::string, size_t> by_addresses;
  for (size_t i = 0; i < listeners.size(); ++i) {
    const auto [place, is_new] = by_addresses.emplace(key_for(listeners[i]), groups_.size());
    if (is_new) {
      groups_.emplace_back();
      keys_.push_back(place->first);
    }
    groups_[place->second].push_back(i);
    group_of_.push_back(place->second);
  }
  roles_.resize(listeners.size(), Role::kAlone);
  for (const std::vector<size_t>& group : groups_) {
    const auto has_names = [&](size_t i) { return !listeners[i].server_names.empty(); };
    if (std::none_of(group.begin(), group.end(), has_names)) continue;
    for (const size_t i : group) roles_[i] = Role::kShares;
    const auto rest = std::find_if_not(group.begin(), group.end(), has_names);
    roles_[rest == group.end() ? group.front() : *rest] = Role::kAccepts;
  }
}

}  // namespace sluice::config
