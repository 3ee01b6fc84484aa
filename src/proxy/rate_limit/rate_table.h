#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "proxy/rate_limit/gcra.h"

namespace sluice {

/// The result of a check.
struct RateVerdict {
  bool admitted = true;
  bool evicted = false;  ///< Another key that still had a part of its burst to get back was forgotten.
  /// In how many nanoseconds it conforms, if it has to wait for that. If it is refused: in how many the next event of
  /// this key will be admitted.
  uint64_t wait_ns = 0;
};

/// A rate limit's state of each key, in memory of a fixed size that all workers share, without a lock.
///
/// A key is a 64-bit hash, which clients must not be able to choose: see RateKeyHasher. One part of it names a bucket
/// of one cache line, another tells the eight keys in it apart; a key's TAT is in the same word as that tag, so a check
/// is one line of memory and at most one exchange. A refused event changes nothing. Two keys are taken for one with a
/// probability of 8 in 2^24.
///
/// A new key takes the place of the one in its bucket whose TAT is the earliest: one that has recovered, the one that
/// recovered longest ago first; else the one that is the nearest to it. So a flood of keys with an event each displaces
/// itself, rather than a key that is being limited, and no new key is refused for lack of room.
class RateTable {
 public:
  static constexpr size_t kBucketKeys = 8;
  static constexpr size_t kMaxKeys = size_t{1} << 24;

  /// For at least this many keys, up to kMaxKeys: rounded up to a power of two. 8 bytes each.
  RateTable(const Gcra& gcra, size_t keys);
  RateTable(const RateTable&) = delete;
  RateTable& operator=(const RateTable&) = delete;

  /// Whether an event of this key conforms now, by CLOCK_MONOTONIC in nanoseconds, or once it has waited; if so, counts
  /// it. Callable on any thread.
  RateVerdict check(uint64_t key_hash, uint64_t now_ns);
  /// For a limit of bytes: counts `bytes` for this key. Their turn comes after `wait_ns`.
  RateVerdict reserve(uint64_t key_hash, size_t bytes, uint64_t now_ns) {
    return count(key_hash, static_cast<int64_t>(bytes), now_ns);
  }
  /// Gives back bytes that were counted and will not pass.
  void give_back(uint64_t key_hash, size_t bytes, uint64_t now_ns) {
    (void)count(key_hash, -static_cast<int64_t>(bytes), now_ns);
  }

  size_t bytes() const { return (mask_ + 1) * sizeof(Bucket); }

 private:
  static constexpr int kTagBits = 64 - Gcra::kTimeBits;

  // A tag above a TAT; 0: no key.
  struct alignas(64) Bucket {
    std::array<std::atomic<uint64_t>, kBucketKeys> entries{};
  };
  static Bucket* make_buckets(size_t count);

  // Where a key is, or what takes its place.
  struct Place {
    std::atomic<uint64_t>* entry;
    uint64_t value;
    int64_t ahead;
    bool known;
  };
  Place find(Bucket& bucket, uint64_t tag, uint64_t now) const;
  RateVerdict count(uint64_t key_hash, int64_t bytes, uint64_t now_ns);

  const Gcra gcra_;
  const size_t mask_;
  const std::unique_ptr<Bucket[], void (*)(Bucket*)> buckets_;
};

}  // namespace sluice
