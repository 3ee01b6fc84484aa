#include "proxy/server/generation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proxy/config/model/listen_address.h"

namespace sluice {

namespace {

const std::string& name_of(const ListenerState& state) { return state.config->name; }
const std::string& name_of(const UpstreamState& state) { return state.config().name; }

const std::string& name_of(const RateLimiter& state) { return state.config().name; }

template <class State>
std::shared_ptr<State> find(const std::vector<std::shared_ptr<State>>& states, const std::string& name) {
  for (const auto& state : states) {
    if (name_of(*state) == name) return state;
  }
  return nullptr;
}

template <class State>
bool contains(const std::vector<std::shared_ptr<State>>& states, const State& state) {
  return std::any_of(states.begin(), states.end(), [&](const auto& each) { return each.get() == &state; });
}

using RateLimiters = std::vector<std::shared_ptr<const RateLimiter>>;

// Whether all rate limits that the listener names are the same in both.
bool are_limits_kept(const config::Listener& listener, const RateLimiters& before, const RateLimiters& now) {
  const auto kept = [&](const std::vector<std::string>& names) {
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return find(before, name) == find(now, name); });
  };
  const auto level_kept = [&](const auto& level) {
    return kept(level.rate_limits) && kept(level.response_bandwidth) && kept(level.request_bandwidth);
  };
  return kept(listener.connection_rate_limits) && kept(listener.handshake_rate_limits) &&
         (!listener.http || (level_kept(*listener.http) &&
                             std::all_of(listener.http->routes.begin(), listener.http->routes.end(), level_kept)));
}

}  // namespace

Generation::Generation(config::Snapshot<config::Config> configuration, unsigned workers)
    : config(std::move(configuration)) {
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
    : config(std::move(configuration)) {
  const size_t added_slots = EndpointTable::added_slots(*config);
  for (const config::Upstream& upstream : config->upstreams) {
    const std::shared_ptr<UpstreamState> old = find(before.upstreams, upstream.name);
    if (old && is_unchanged(old->config(), upstream) && old->slots().added_slots() == added_slots) {
      upstreams.push_back(old);
      continue;
    }
    upstreams.push_back(std::make_shared<UpstreamState>(config.part(upstream), added_slots));
    if (old) upstreams.back()->continue_from(*old);
  }
  for (const config::RateLimit& limit : config->rate_limits) {
    const std::shared_ptr<const RateLimiter> old = find(before.rate_limits, limit.name);
    rate_limits.push_back(
        old && old->config() == limit ? old : std::make_shared<const RateLimiter>(config.part(limit), old.get()));
  }
  // A listener's routing table has the indices of the upstreams that it was made with, so it may keep its state only if
  // all of these are still there.
  const bool same_upstreams = std::all_of(before.upstreams.begin(), before.upstreams.end(),
                                          [this](const auto& upstream) { return has(*upstream); });
  const config::ListenAddresses addresses(*config), addresses_before(*before.config);
  for (const config::Listener& listener : config->listeners) {
    const std::shared_ptr<ListenerState> old = find(before.listeners, listener.name);
    // The files of error pages may have changed.
    const bool reads_files = listener.http && !listener.http->errors.empty();
    if (old && same_upstreams && !reads_files && *old->config == listener &&
        addresses.of(listener) == addresses_before.of(*old->config) &&
        are_limits_kept(listener, before.rate_limits, rate_limits)) {
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
bool Generation::has(const UpstreamState& upstream) const { return contains(upstreams, upstream); }

}  // namespace sluice
