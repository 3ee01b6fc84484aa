#include "proxy/upstream/balancer.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "proxy/upstream/stable_hash.h"

namespace sluice {

namespace {

// The number of random draws before every endpoint is examined. If endpoints with half of the weight are usable, all
// draws miss in one of 65,536 choices.
constexpr int kDraws = 16;

// Scales the upper half of a hash to a part of `whole`. For another `whole` it is the same fraction, apart from
// rounding.
uint64_t part_of(uint64_t whole, uint64_t hash) { return (hash >> 32) * whole >> 32; }

}  // namespace

Balancer::Balancer(UpstreamState& upstream, uint64_t seed, std::shared_ptr<Counters> counters)
    : upstream_(upstream),
      view_(upstream.slots()),
      current_weights_(upstream.size()),
      random_(seed),
      counters_(std::move(counters)) {
  const std::span<const uint32_t> present = view_.present();
  if (present.empty()) return;
  first_turn_ = present[seed % present.size()];
  current_weights_[first_turn_] = 1;
}

// New endpoints start with a current weight of 0.
void Balancer::follow_endpoints() {
  if (!view_.refresh()) return;
  shared_at_ms_ = UINT64_MAX;
  for (uint32_t i = 0; i < current_weights_.size(); ++i) {
    if (!view_.is_present(i)) current_weights_[i] = 0;
  }
}

const EndpointSet& Balancer::endpoints() {
  follow_endpoints();
  return view_.set();
}

bool Balancer::needs_hash() const {
  const config::Balance balance = upstream_.config().balance;
  return balance == config::Balance::kMaglev || balance == config::Balance::kRingHash;
}

bool Balancer::has_room(uint32_t index, const Choice& choice) const {
  if (choice.tried.contains(index) || choice.beside == index || !upstream_.endpoint(index).enabled()) return false;
  const uint32_t limit = upstream_.config().max_connections_per_endpoint;
  return limit == 0 || upstream_.endpoint(index).active.load(std::memory_order_relaxed) < limit;
}

std::optional<uint32_t> Balancer::pick(const Choice& choice) {
  upstream_.end_expired_ejections(choice.now_ms);
  follow_endpoints();
  const auto can_take = [&](uint32_t i) { return has_room(i, choice); };
  const auto usable = [&](uint32_t i) { return can_take(i) && upstream_.endpoint(i).up(choice.now_ms); };
  if (choice.preferred) {
    const bool kept = view_.is_present(*choice.preferred) && usable(*choice.preferred);
    ++(kept ? counters_->preferred : counters_->preferred_lost);
    if (kept) return choice.preferred;
  }
  if (const auto picked = pick_by_priority(choice, usable); picked || choice.beside) return picked;
  const auto down = pick_by_priority(choice, can_take);
  if (down) ++counters_->panics;
  return down;
}

// ---- Priorities ----

template <typename Eligible>
std::optional<uint32_t> Balancer::pick_by_priority(const Choice& choice, Eligible eligible) {
  const std::vector<Level>& levels = view_.set().levels();
  if (levels.size() == 1) return pick_among(0, choice, eligible);
  if (levels.empty()) return std::nullopt;
  const size_t chosen = choose_level(choice);
  auto picked = pick_among(chosen, choice, eligible);
  size_t level = chosen;
  for (size_t i = 0; !picked && i < levels.size(); ++i) {
    if (i == chosen) continue;
    picked = pick_among(i, choice, eligible);
    level = i;
  }
  if (picked && level > 0) ++counters_->failovers;
  return picked;
}

// A key maps to the same level as long as the shares do not change.
size_t Balancer::choose_level(const Choice& choice) {
  share_among_levels(choice.now_ms);
  uint64_t whole = 0;
  for (const uint64_t share : level_shares_) whole += share;
  uint64_t part = part_of(whole, choice.hash ? mixed(*choice.hash) : random_.next());
  size_t level = 0;
  while (part >= level_shares_[level]) part -= level_shares_[level++];
  return level;
}

// Recomputed at most once per millisecond, because it examines all endpoints. Endpoints that go down in between are
// passed over anyway.
void Balancer::share_among_levels(uint64_t now_ms) {
  if (shared_at_ms_ == now_ms) return;
  shared_at_ms_ = now_ms;
  const std::vector<Level>& levels = view_.set().levels();
  level_health_.assign(levels.size(), {});
  level_shares_.resize(levels.size());
  for (size_t i = 0; i < levels.size(); ++i) {
    level_health_[i].all = levels[i].members.size();
    for (const uint32_t member : levels[i].members) level_health_[i].up += upstream_.endpoint(member).up(now_ms);
  }
  share_by_priority(level_health_, upstream_.config().failover_below, level_shares_);
}

// ---- Policies ----

template <typename Eligible>
std::optional<uint32_t> Balancer::pick_among(size_t index, const Choice& choice, Eligible eligible) {
  const Level& level = view_.set().levels()[index];
  if (level.members.size() == 1) return eligible(level.members[0]) ? std::optional(level.members[0]) : std::nullopt;
  switch (upstream_.config().balance) {
    case config::Balance::kRoundRobin:
      return pick_in_turn(index, choice, eligible);
    case config::Balance::kLeastConnections:
      return pick_lightest(level, choice.now_ms, eligible);
    case config::Balance::kLeastRequest:
      return pick_lighter_of_two(level, choice.now_ms, eligible);
    case config::Balance::kRandom:
      return pick_at_random(level, choice.now_ms, eligible);
    case config::Balance::kMaglev:
    case config::Balance::kRingHash:
      return choice.hash ? pick_by_hash(level, choice, eligible) : pick_at_random(level, choice.now_ms, eligible);
  }
  return std::nullopt;
}

// The effective weight, reduced during slow start.
int64_t Balancer::weight(uint32_t index, uint64_t now_ms) const {
  return static_cast<int64_t>(upstream_.slots().weight(index) * upstream_.share(index, now_ms));
}

// Compares the load per weight if each had `more` connections: 1 counts the new one; with 0 all idle ones are equal.
bool Balancer::is_lighter(uint32_t a, uint32_t b, int64_t more, uint64_t now_ms) const {
  const auto load = [&](uint32_t i) {
    return static_cast<int64_t>(upstream_.endpoint(i).active.load(std::memory_order_relaxed)) + more;
  };
  return load(a) * weight(b, now_ms) < load(b) * weight(a, now_ms);
}

// Endpoints of equal weights simply take turns. Those that are passed over lose theirs. Further attempts have turns of
// their own: otherwise each retry would take the turn of the endpoint behind one that fails, and of two endpoints the
// one that fails would always come first.
template <typename Eligible>
std::optional<uint32_t> Balancer::pick_next(size_t index, const Choice& choice, Eligible eligible) {
  const std::vector<uint32_t>& members = view_.set().levels()[index].members;
  std::vector<uint32_t>& turns = choice.tried.count() == 0 && !choice.beside ? turns_ : further_turns_;
  if (turns.size() <= index) turns.resize(index + 1, first_turn_);
  const auto count = static_cast<size_t>(members.size());
  const auto begin = static_cast<size_t>(std::ranges::lower_bound(members, turns[index]) - members.begin());
  for (size_t step = 0; step < count; ++step) {
    const uint32_t i = members[(begin + step) % count];
    if (!eligible(i)) continue;
    turns[index] = i + 1;
    return i;
  }
  return std::nullopt;
}

// Smooth weighted round robin: each endpoint gains its weight; the one with the highest current weight is chosen and
// pays the total. This interleaves the choices evenly, and examines all endpoints.
template <typename Eligible>
std::optional<uint32_t> Balancer::pick_in_turn(size_t index, const Choice& choice, Eligible eligible) {
  const Level& level = view_.set().levels()[index];
  if (level.equal_weights && upstream_.config().slow_start.count() == 0) return pick_next(index, choice, eligible);
  std::optional<uint32_t> best;
  int64_t total = 0;
  for (const uint32_t i : level.members) {
    if (!eligible(i)) continue;
    const int64_t gain = weight(i, choice.now_ms);
    total += gain;
    current_weights_[i] += gain;
    if (!best || current_weights_[i] > current_weights_[*best]) best = i;
  }
  if (best) current_weights_[*best] -= total;
  return best;
}

// Ties go to the first endpoint after a random start. If weights differ, the choice also has to be lighter without the
// new connection than one drawn by weight: otherwise the greatest weight would get everything while all are idle.
template <typename Eligible>
std::optional<uint32_t> Balancer::pick_lightest(const Level& level, uint64_t now_ms, Eligible eligible) {
  std::optional<uint32_t> best;
  const size_t count = level.members.size();
  const auto start = static_cast<size_t>(random_.below(count));
  for (size_t step = 0; step < count; ++step) {
    const uint32_t i = level.members[(start + step) % count];
    if (eligible(i) && (!best || is_lighter(i, *best, 1, now_ms))) best = i;
  }
  if (!best || (level.equal_weights && upstream_.config().slow_start.count() == 0)) return best;
  const std::optional<uint32_t> drawn = pick_at_random(level, now_ms, eligible);
  return drawn && !is_lighter(*best, *drawn, 0, now_ms) ? drawn : best;
}

// Chooses the less loaded of two random endpoints, so that workers that see the same loads do not all choose the least
// loaded one.
template <typename Eligible>
std::optional<uint32_t> Balancer::pick_lighter_of_two(const Level& level, uint64_t now_ms, Eligible eligible) {
  const std::optional<uint32_t> one = pick_at_random(level, now_ms, eligible);
  if (!one) return one;
  const auto is_other = [&](uint32_t i) { return i != *one && eligible(i); };
  const std::optional<uint32_t> other = pick_at_random(level, now_ms, is_other);
  if (!other) return one;
  // The other one has to be lighter also without the new connection: of idle ones the draw, which is by weight,
  // decides, or the lightest weights would get nothing until others are busy.
  return is_lighter(*other, *one, 0, now_ms) && is_lighter(*other, *one, 1, now_ms) ? other : one;
}

// Draws by weight until an eligible endpoint is found. If most are not eligible, scans all: each eligible one replaces
// the choice with probability weight / total so far. Both ways give each its share of the weight.
template <typename Eligible>
std::optional<uint32_t> Balancer::pick_at_random(const Level& level, uint64_t now_ms, Eligible eligible) {
  for (int draw = 0; draw < kDraws; ++draw) {
    const uint32_t i = level.member_at(random_.below(level.weight()));
    if (!eligible(i)) continue;
    const uint64_t share = upstream_.share(i, now_ms);
    if (share == UpstreamState::kFullShare || random_.below(UpstreamState::kFullShare) < share) return i;
  }
  std::optional<uint32_t> best;
  int64_t total = 0;
  for (const uint32_t i : level.members) {
    if (!eligible(i)) continue;
    total += weight(i, now_ms);
    if (static_cast<int64_t>(random_.below(static_cast<uint64_t>(total))) < weight(i, now_ms)) best = i;
  }
  return best;
}

// The keys of an endpoint that is passed over go to the next one in the table. An endpoint in slow start takes a part
// of its keys, which grows with time. If nearly none is eligible, the key is hashed together with each endpoint, and
// the greatest hash wins (rendezvous hashing): this moves no more keys, but scans all endpoints.
template <typename Eligible>
std::optional<uint32_t> Balancer::pick_by_hash(const Level& level, const Choice& choice, Eligible eligible) {
  const uint64_t hash = *choice.hash;
  const auto takes_key = [&](uint32_t i) {
    if (!eligible(i)) return false;
    const uint64_t share = upstream_.share(i, choice.now_ms);
    return share == UpstreamState::kFullShare || mixed(hash ^ level.id_of(i)) % UpstreamState::kFullShare < share;
  };
  const bool maglev = upstream_.config().balance == config::Balance::kMaglev;
  if (const auto found = maglev ? level.maglev.find(hash, takes_key) : level.ring.find(hash, takes_key)) return found;
  std::optional<uint32_t> best;
  uint64_t greatest = 0;
  for (size_t i = 0; i < level.members.size(); ++i) {
    const uint64_t with_it = mixed(hash ^ level.ids[i]);
    if (!eligible(level.members[i]) || (best && with_it <= greatest)) continue;
    best = level.members[i];
    greatest = with_it;
  }
  return best;
}

}  // namespace sluice
