#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proxy/common/random.h"
#include "proxy/upstream/endpoint.h"
#include "proxy/upstream/priority_shares.h"
#include "proxy/upstream/tried_endpoints.h"

namespace sluice {

/// What an endpoint is chosen for: a connection, or a request.
struct Choice {
  TriedEndpoints tried = {};
  uint64_t now_ms = 0;
  /// Of its key, where Balancer::needs_hash(). Without one chance decides.
  std::optional<uint64_t> hash = {};
  /// Taken if it can be, whatever else there is.
  std::optional<uint32_t> preferred = {};
  /// The endpoint that is asked already, and slow: another one is wanted that is up, or none.
  std::optional<uint32_t> beside = {};
};

/// One worker's choice among an upstream's endpoints. Endpoints that were tried, are full or are down are passed over;
/// when all that is left is down, down ones are tried after all.
///
///     std::optional<uint32_t> endpoint = balancer.pick({.tried = tried, .now_ms = worker.now_ms()});
class Balancer {
 public:
  /// What it has counted.
  struct Counts {
    uint64_t preferred = 0;       ///< Choices that were known before,
    uint64_t preferred_lost = 0;  ///< or would have been, but that endpoint could not be taken.
    uint64_t failovers = 0;       ///< Choices of an endpoint that is not of the lowest priority.
    uint64_t panics = 0;          ///< Choices of one that is down, since all are.
  };

  /// `seed` differs between workers, so that they do not start on the same endpoint.
  Balancer(UpstreamState& upstream, uint64_t seed);

  UpstreamState& upstream() { return upstream_; }
  const Counts& counts() const { return counts_; }
  /// What this worker knows of the endpoints.
  EndpointView& view() { return view_; }
  /// Takes up what has changed of them; endpoints() and pick() do too.
  void follow_endpoints();
  /// The endpoints that there are. Good until the next call of anything here.
  const EndpointSet& endpoints();
  /// Whether endpoints are chosen by keys.
  bool needs_hash() const;

  /// The endpoint for it, or nothing when each was tried or is full. Where endpoints have priorities, the first that
  /// has enough of them up is taken; see config::Upstream::failover_below.
  std::optional<uint32_t> pick(const Choice& choice);

 private:
  using Level = EndpointSet::Level;

  bool has_room(uint32_t index, const Choice& choice) const;
  size_t choose_level(const Choice& choice);
  void share_among_levels(uint64_t now_ms);
  template <typename Eligible>
  std::optional<uint32_t> pick_by_priority(const Choice& choice, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_among(const Level& level, const Choice& choice, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_in_turn(const Level& level, uint64_t now_ms, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_lightest(const Level& level, uint64_t now_ms, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_lighter_of_two(const Level& level, uint64_t now_ms, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_at_random(const Level& level, uint64_t now_ms, Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_by_hash(const Level& level, const Choice& choice, Eligible eligible);
  int64_t weight(uint32_t index, uint64_t now_ms) const;
  bool is_lighter(uint32_t a, uint32_t b, uint64_t now_ms) const;

  UpstreamState& upstream_;
  EndpointView view_;
  std::vector<int64_t> current_weights_;   // Smooth weighted round robin. By slot.
  std::vector<LevelHealth> level_health_;  // Where there are several,
  std::vector<uint64_t> level_shares_;     // as of
  uint64_t shared_at_ms_ = UINT64_MAX;     // this time.
  Random random_;
  Counts counts_;
};

}  // namespace sluice
