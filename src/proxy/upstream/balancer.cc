#include "proxy/upstream/balancer.h"

#include <cstddef>

namespace sluice {

Balancer::Balancer(UpstreamState& upstream, uint64_t seed)
    : upstream_(upstream), current_weights_(upstream.size()), random_state_(seed * 0x9e3779b97f4a7c15 + 1) {
  if (!current_weights_.empty()) current_weights_[seed % current_weights_.size()] = 1;
}

// xorshift64*: speed and spread are all that is asked of it.
uint64_t Balancer::next_random() {
  random_state_ ^= random_state_ >> 12;
  random_state_ ^= random_state_ << 25;
  random_state_ ^= random_state_ >> 27;
  return random_state_ * 0x2545f4914f6cdd1d;
}

bool Balancer::usable(size_t index, const TriedEndpoints& tried) const {
  if (tried.contains(index)) return false;
  const uint32_t limit = upstream_.config().max_connections_per_endpoint;
  return limit == 0 || upstream_.endpoint(index).active.load(std::memory_order_relaxed) < limit;
}

std::optional<uint32_t> Balancer::pick(const TriedEndpoints& tried, uint64_t now_ms) {
  const auto up = pick_among([&](size_t i) { return usable(i, tried) && !upstream_.endpoint(i).down(now_ms); });
  return up ? up : pick_among([&](size_t i) { return usable(i, tried); });
}

template <typename Eligible>
std::optional<uint32_t> Balancer::pick_among(Eligible eligible) {
  std::optional<uint32_t> best;
  const auto weight = [&](size_t i) { return static_cast<int64_t>(upstream_.endpoint_config(i).weight); };
  int64_t total = 0;
  const size_t count = upstream_.size();
  const size_t first = static_cast<size_t>(next_random() % count);
  for (size_t step = 0; step < count; ++step) {
    const size_t i = upstream_.config().balance == config::Balance::kRoundRobin ? step : (first + step) % count;
    if (!eligible(i)) continue;
    total += weight(i);
    switch (upstream_.config().balance) {
      case config::Balance::kRoundRobin:
        // Each gains its weight; the richest is taken and pays the total: an even interleaving.
        current_weights_[i] += weight(i);
        if (!best || current_weights_[i] > current_weights_[*best]) best = static_cast<uint32_t>(i);
        break;
      case config::Balance::kLeastConnections: {
        // Connections per weight, compared without dividing; ties go to the first after a random start.
        const auto load = [&](size_t e) {
          return static_cast<int64_t>(upstream_.endpoint(e).active.load(std::memory_order_relaxed)) + 1;
        };
        if (!best || load(i) * weight(*best) < load(*best) * weight(i)) best = static_cast<uint32_t>(i);
        break;
      }
      case config::Balance::kRandom:
        // Reservoir: i replaces the choice with probability weight / total so far.
        if (static_cast<int64_t>(next_random() % static_cast<uint64_t>(total)) < weight(i)) {
          best = static_cast<uint32_t>(i);
        }
        break;
    }
  }
  if (best && upstream_.config().balance == config::Balance::kRoundRobin) current_weights_[*best] -= total;
  return best;
}

}  // namespace sluice
