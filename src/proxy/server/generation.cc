#include "proxy/server/generation.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "proxy/config/model/listen_address.h"

namespace sluice {

namespace {

const std::string& name_of(const ListenerState& state) { return state.config->name; }
const std::string& name_of(const UpstreamState& state) { return state.config().name; }

const std::string& name_of(const RateLimiter& state) { return state.config().name; }

// Finds states by name, in constant time. Refers to their names.
template <class State>
class ByName {
 public:
  explicit ByName(const std::vector<std::shared_ptr<State>>& states) {
    for (const auto& state : states) by_name_.emplace(name_of(*state), state);
  }

  // Null if there is none.
  std::shared_ptr<State> find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  absl::flat_hash_map<std::string_view, std::shared_ptr<State>> by_name_;
};

template <class State>
bool contains(const std::vector<std::shared_ptr<State>>& states, const State& state) {
  return std::any_of(states.begin(), states.end(), [&](const auto& each) { return each.get() == &state; });
}

using RateLimiters = ByName<const RateLimiter>;

// Whether all rate limits that the listener names are the same in both.
bool are_limits_kept(const config::Listener& listener, const RateLimiters& before, const RateLimiters& now) {
  const auto kept = [&](const std::vector<std::string>& names) {
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return before.find(name) == now.find(name); });
  };
  const auto level_kept = [&](const auto& level) {
    return kept(level.rate_limits) && kept(level.response_bandwidth) && kept(level.request_bandwidth);
  };
  return kept(listener.connection_rate_limits) && kept(listener.handshake_rate_limits) &&
         (!listener.tcp || (kept(listener.tcp->upload_bandwidth) && kept(listener.tcp->download_bandwidth))) &&
         (!listener.http || (level_kept(*listener.http) &&
                             std::all_of(listener.http->routes.begin(), listener.http->routes.end(), level_kept)));
}

using Roles = absl::flat_hash_map<std::string_view, config::AddressGroups::Role>;

// How each listener gets its connections, by name. Refers to the names.
Roles roles_of(const Generation& generation) {
  Roles roles;
  for (size_t i = 0; i < generation.config->listeners.size(); ++i) {
    roles.emplace(generation.config->listeners[i].name, generation.groups->role(i));
  }
  return roles;
}

}  // namespace

Generation::Generation(config::Snapshot<config::Config> configuration, unsigned workers)
    : config(std::move(configuration)), groups(std::make_shared<config::AddressGroups>(config->listeners)) {
  for (const config::RateLimit& limit : config->rate_limits) {
    rate_limits.push_back(std::make_shared<RateLimiter>(config.part(limit), nullptr));
  }
  const size_t added_slots = EndpointTable::added_slots(*config);
  for (const config::Upstream& upstream : config->upstreams) {
    upstreams.push_back(std::make_shared<UpstreamState>(config.part(upstream), added_slots));
  }
  for (const config::Listener& listener : config->listeners) {
    listeners.push_back(std::make_shared<ListenerState>(config.part(listener), config->upstreams, nullptr, workers));
  }
  for (unsigned i = 0; i < workers; ++i) counters.push_back(std::make_shared<WorkerCounters>(*config));
}

Generation::Generation(config::Snapshot<config::Config> configuration, const Generation& before)
    : config(std::move(configuration)), groups(std::make_shared<config::AddressGroups>(config->listeners)) {
  const size_t added_slots = EndpointTable::added_slots(*config);
  const ByName<UpstreamState> upstreams_before(before.upstreams);
  size_t kept_upstreams = 0;
  for (const config::Upstream& upstream : config->upstreams) {
    const std::shared_ptr<UpstreamState> old = upstreams_before.find(upstream.name);
    if (old && is_unchanged(old->config(), upstream) && old->slots().added_slots() == added_slots) {
      upstreams.push_back(old);
      ++kept_upstreams;
      continue;
    }
    upstreams.push_back(std::make_shared<UpstreamState>(config.part(upstream), added_slots));
    if (old) upstreams.back()->continue_from(*old);
  }
  const RateLimiters limits_before(before.rate_limits);
  for (const config::RateLimit& limit : config->rate_limits) {
    const std::shared_ptr<const RateLimiter> old = limits_before.find(limit.name);
    rate_limits.push_back(
        old && old->config() == limit ? old : std::make_shared<const RateLimiter>(config.part(limit), old.get()));
  }
  // A listener's routing table has the indices of the upstreams that it was made with, so it may keep its state only if
  // all of these are still there.
  const bool same_upstreams = kept_upstreams == before.upstreams.size();
  const RateLimiters limits_now(rate_limits);
  const ByName<ListenerState> listeners_before(before.listeners);
  const Roles roles_before = roles_of(before);
  const config::ListenAddresses addresses(*config), addresses_before(*before.config);
  for (size_t i = 0; i < config->listeners.size(); ++i) {
    const config::Listener& listener = config->listeners[i];
    const std::shared_ptr<ListenerState> old = listeners_before.find(listener.name);
    // The files of error pages may have changed.
    const bool reads_files = listener.http && !listener.http->errors.empty();
    if (old && same_upstreams && !reads_files && *old->config == listener &&
        groups->role(i) == roles_before.at(listener.name) &&
        addresses.of(listener) == addresses_before.of(*old->config) &&
        are_limits_kept(listener, limits_before, limits_now)) {
      listeners.push_back(old);
      continue;
    }
    const auto workers = static_cast<unsigned>(before.counters.size());
    listeners.push_back(std::make_shared<ListenerState>(
        config.part(listener), config->upstreams, old ? old->limits : std::shared_ptr<ListenerLimits>(), workers));
  }
  for (const auto& worker : before.counters) {
    counters.push_back(std::make_shared<WorkerCounters>(*config, *before.config, *worker));
  }
}

bool Generation::has(const ListenerState& listener) const { return contains(listeners, listener); }

}  // namespace sluice
