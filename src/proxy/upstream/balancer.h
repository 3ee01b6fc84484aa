#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proxy/upstream/endpoint.h"
#include "proxy/upstream/tried_endpoints.h"

namespace sluice {

/// One worker's choice among an upstream's endpoints. Endpoints that were tried, are full or are down are passed over;
/// when all that is left is down, down ones are tried after all.
class Balancer {
 public:
  /// `seed` differs between workers, so that they do not start on the same endpoint.
  Balancer(UpstreamState& upstream, uint64_t seed);

  UpstreamState& upstream() { return upstream_; }

  /// The endpoint for a new connection, or nothing when each was tried or is full.
  std::optional<uint32_t> pick(const TriedEndpoints& tried, uint64_t now_ms);

 private:
  bool usable(size_t index, const TriedEndpoints& tried) const;
  template <typename Eligible>
  std::optional<uint32_t> pick_among(Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_in_turn(Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_lightest(Eligible eligible);
  template <typename Eligible>
  std::optional<uint32_t> pick_at_random(Eligible eligible);
  int64_t weight(size_t index) const;
  bool is_lighter(size_t a, size_t b) const;
  uint64_t next_random();

  UpstreamState& upstream_;
  std::vector<int64_t> current_weights_;  // Smooth weighted round robin.
  uint64_t random_state_;
};

}  // namespace sluice
