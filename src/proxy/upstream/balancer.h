#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "proxy/common/counter.h"
#include "proxy/common/random.h"
#include "proxy/upstream/endpoint.h"
#include "proxy/upstream/priority_shares.h"
#include "proxy/upstream/tried_endpoints.h"

namespace sluice {

/// The parameters of one choice of an endpoint, for a connection or a request.
struct Choice {
  TriedEndpoints tried = {};
  uint64_t now_ms = 0;
  /// The hash of its key, if Balancer::needs_hash(). Without one the choice is random.
  std::optional<uint64_t> hash = {};
  /// The endpoint to prefer over all others, if it is usable.
  std::optional<uint32_t> preferred = {};
  /// The endpoint that has the request already, but is slow. The choice is then another endpoint that is up, or none.
  std::optional<uint32_t> beside = {};
};

/// Chooses among an upstream's endpoints for one worker. It passes over endpoints that were tried, are full, or are
/// down; if all others are down, it chooses one that is down.
///
///     std::optional<uint32_t> endpoint = balancer.pick({.tried = tried, .now_ms = worker.now_ms()});
class Balancer {
 public:
  /// Of one worker and upstream.
  struct Counters {
    Counter preferred;       ///< Choices of the preferred endpoint.
    Counter preferred_lost;  ///< Choices whose preferred endpoint was not usable.
    Counter failovers;       ///< Choices of an endpoint that does not have the lowest priority number.
    Counter panics;          ///< Choices of an endpoint that is down, because all are.
  };

  /// `upstream` outlives it. `seed` differs between workers, so that they do not start on the same endpoint.
  Balancer(UpstreamState& upstream, uint64_t seed, std::shared_ptr<Counters> counters = std::make_shared<Counters>());

  UpstreamState& upstream() { return upstream_; }
  const Counters& counters() const { return *counters_; }
  /// This worker's view of the endpoints.
  EndpointView& view() { return view_; }
  /// Updates the view to the current endpoints; endpoints() and pick() do so too.
  void follow_endpoints();
  /// The current endpoints. Valid until the next call of a member function.
  const EndpointSet& endpoints();
  /// Whether the policy chooses endpoints by the hash of a key.
  bool needs_hash() const;

  /// Returns the chosen endpoint, or nullopt if every endpoint was tried or is full. If endpoints have priorities, the
  /// first priority with enough endpoints up is used; see config::Upstream::failover_below.
  std::optional<uint32_t> pick(const Choice& choice);

 private:
  using Level = EndpointSet::Level;

  bool has_room(uint32_t index, const Choice& choice) const;
  size_t choose_level(const Choice& choice);
  void share_among_levels(uint64_t now_ms);
  template <typename Eligible>
  std::optional<uint32_t> pick_by_priority(const Choice& choice, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_among(size_t level, const Choice& choice, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_in_turn(size_t level, const Choice& choice, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_next(size_t level, const Choice& choice, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_lightest(const Level& level, uint64_t now_ms, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_lighter_of_two(const Level& level, uint64_t now_ms, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_at_random(const Level& level, uint64_t now_ms, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_by_hash(const Level& level, const Choice& choice, Eligible eligible);
  int64_t weight(uint32_t index, uint64_t now_ms) const;
  bool is_lighter(uint32_t a, uint32_t b, int64_t more, uint64_t now_ms) const;

  UpstreamState& upstream_;
  EndpointView view_;
  std::vector<uint32_t> further_turns_;    // The same for further attempts.
  std::vector<int64_t> current_weights_;   // By slot, for smooth weighted round robin.
  uint32_t first_turn_ = 0;                // Differs between workers.
  std::vector<uint32_t> turns_;            // By level, for round robin of equal weights: the slot whose turn is next.
  std::vector<LevelHealth> level_health_;  // By level; unused if there is only one.
  std::vector<uint64_t> level_shares_;     // By level; unused if there is only one.
  uint64_t shared_at_ms_ = UINT64_MAX;     // The time of the above two.
  Random random_;
  const std::shared_ptr<Counters> counters_;
};

}  // namespace sluice
