#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proxy/config/model/rate_limit.h"
#include "proxy/rate_limit/rate_limiter.h"

namespace sluice {

/// The limits of bytes on one direction of a request, with the request's key for each. It divides a body into pieces
/// that are small enough for a steady flow.
class Bandwidth {
 public:
  /// The largest piece: what a record of TLS holds.
  static constexpr size_t kMaxPieceBytes = size_t{16} * 1024;
  static constexpr size_t kMinPieceBytes = 256;

  /// `limit` outlives it. Precondition: fewer than config::kMaxBandwidthLimits were added.
  void add(const WorkerRateLimit& limit, uint64_t key_hash);
  bool empty() const { return count_ == 0; }

  /// How long the next piece is, if the body has that much.
  size_t piece_bytes() const { return piece_bytes_; }
  /// Counts the next piece of the body, for all limits. Returns in how many nanoseconds its turn comes.
  uint64_t reserve(size_t bytes);
  /// Gives back the last piece, which will not pass.
  void give_back(size_t bytes) const;

 private:
  struct Limit {
    const WorkerRateLimit* limit;
    uint64_t key_hash;
  };

  std::array<Limit, config::kMaxBandwidthLimits> limits_{};
  size_t count_ = 0;
  size_t largest_bytes_ = kMaxPieceBytes;
  size_t piece_bytes_ = kMaxPieceBytes;
};

}  // namespace sluice
