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
  switch (upstream_.config().balance) {
    case config::Balance::kRoundRobin:
      return pick_in_turn(eligible);
    case config::Balance::kLeastConnections:
      return pick_lightest(eligible);
    case config::Balance::kLeastRequest: {
      // Two choices at random, and of these the lighter. Workers that look at the same loads do not all run to the one
      // that is lightest just now.
      const std::optional<uint32_t> one = pick_at_random(eligible);
      const std::optional<uint32_t> other = pick_at_random([&](size_t i) { return i != one && eligible(i); });
      return other && is_lighter(*other, *one) ? other : one;
    }
    case config::Balance::kRandom:
      return pick_at_random(eligible);
    case config::Balance::kMaglev:
    case config::Balance::kRingHash:
      break;
  }
  return std::nullopt;
}

int64_t Balancer::weight(size_t index) const { return static_cast<int64_t>(upstream_.endpoint_config(index).weight); }

// By what is open per weight, with one more.
bool Balancer::is_lighter(size_t a, size_t b) const {
  const auto load = [&](size_t i) {
    return static_cast<int64_t>(upstream_.endpoint(i).active.load(std::memory_order_relaxed)) + 1;
  };
  return load(a) * weight(b) < load(b) * weight(a);
}

// Each gains its weight; the richest is taken and pays the total: an even interleaving.
template <typename Eligible>
std::optional<uint32_t> Balancer::pick_in_turn(Eligible eligible) {
  std::optional<uint32_t> best;
  int64_t total = 0;
  for (size_t i = 0; i < upstream_.size(); ++i) {
    if (!eligible(i)) continue;
    total += weight(i);
    current_weights_[i] += weight(i);
    if (!best || current_weights_[i] > current_weights_[*best]) best = static_cast<uint32_t>(i);
  }
  if (best) current_weights_[*best] -= total;
  return best;
}

// Ties go to the first after a random start.
template <typename Eligible>
std::optional<uint32_t> Balancer::pick_lightest(Eligible eligible) {
  std::optional<uint32_t> best;
  const size_t count = upstream_.size();
  const auto start = static_cast<size_t>(next_random() % count);
  for (size_t step = 0; step < count; ++step) {
    const size_t i = (start + step) % count;
    if (eligible(i) && (!best || is_lighter(i, *best))) best = static_cast<uint32_t>(i);
  }
  return best;
}

// Reservoir: each takes the place of the choice with probability weight / total so far.
template <typename Eligible>
std::optional<uint32_t> Balancer::pick_at_random(Eligible eligible) {
  std::optional<uint32_t> best;
  int64_t total = 0;
  for (size_t i = 0; i < upstream_.size(); ++i) {
    if (!eligible(i)) continue;
    total += weight(i);
    if (static_cast<int64_t>(next_random() % static_cast<uint64_t>(total)) < weight(i)) best = static_cast<uint32_t>(i);
  }
  return best;
}

}  // namespace sluice
