#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proxy/config/model/rate_limit.h"
#include "proxy/rate_limit/rate_limiter.h"

namespace sluice {

/// The limits of bytes on one direction of a request or of a TCP connection, with its key for each. It divides the
/// bytes into pieces that are small enough for a steady flow.
class Bandwidth {
 public:
  /// The largest piece: what a record of TLS holds.
  static constexpr size_t kMaxPieceBytes = size_t{16} * 1024;
  static constexpr size_t kMinPieceBytes = 256;

  /// `limit` outlives it. Precondition: fewer than config::kMaxBandwidthLimits were added.
  void add(const WorkerRateLimit& limit, uint64_t key_hash);
  bool empty() const { return count_ == 0; }

  /// The lowest of the rates. Precondition: not empty().
  uint64_t bytes_per_second() const { return bytes_per_second_; }
  /// How long the next piece is, if there is that much.
  size_t piece_bytes() const { return piece_bytes_; }
  /// Counts a piece, for all limits. Returns in how many nanoseconds its turn comes. `now_us`: Worker::now_us().
  uint64_t reserve(size_t bytes, uint64_t now_us);
  /// Gives back the last piece, which will not pass.
  void give_back(size_t bytes, uint64_t now_us) const;

 private:
  struct Limit {
    const WorkerRateLimit* limit;
    uint64_t key_hash;
  };

  std::array<Limit, config::kMaxBandwidthLimits> limits_{};
  size_t count_ = 0;
  uint64_t bytes_per_second_ = UINT64_MAX;
  size_t largest_bytes_ = kMaxPieceBytes;
  size_t piece_bytes_ = kMaxPieceBytes;
};

}  // namespace sluice
