#include "proxy/rate_limit/rate_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <memory>

#include "sluice/internal/check.h"

namespace sluice {

RateTable::RateTable(const Gcra& gcra, size_t keys)
    : gcra_(gcra),
      mask_(std::bit_ceil(std::clamp(keys, kBucketKeys, kMaxKeys)) / kBucketKeys - 1),
      buckets_(make_buckets(mask_ + 1), [](Bucket* buckets) { std::free(buckets); }) {}

// In huge pages where they are large: keys are spread at random, so that most checks would miss the TLB, too.
RateTable::Bucket* RateTable::make_buckets(size_t count) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t bytes = count * sizeof(Bucket);
  const bool large = bytes >= kHugePage;
  void* const memory = std::aligned_alloc(large ? kHugePage : alignof(Bucket), bytes);
  SLUICE_CHECK(memory != nullptr);
  if (large) (void)madvise(memory, bytes, MADV_HUGEPAGE);  // Without them it is only slower.
  auto* const buckets = static_cast<Bucket*>(memory);
  std::uninitialized_value_construct_n(buckets, count);
  return buckets;
}

RateVerdict RateTable::check(uint64_t key_hash, uint64_t now_ns) {
  const uint64_t tag = std::max<uint64_t>(key_hash >> Gcra::kTimeBits, 1) << Gcra::kTimeBits;
  const uint64_t now = gcra_.ticks_at(now_ns);
  auto& entries = buckets_[key_hash & mask_].entries;
  while (true) {
    std::atomic<uint64_t>* place = nullptr;
    uint64_t old = 0;
    int64_t ahead = std::numeric_limits<int64_t>::max();
    bool known = false;
    for (std::atomic<uint64_t>& entry : entries) {
      const uint64_t value = entry.load(std::memory_order_relaxed);
      const bool same = (value & ~Gcra::kTimeMask) == tag;
      const int64_t its_ahead =
          value == 0 ? std::numeric_limits<int64_t>::min() : gcra_.ahead(value & Gcra::kTimeMask, now);
      if (!same && its_ahead >= ahead) continue;
      place = &entry;
      old = value;
      ahead = its_ahead;
      known = same;
      if (same) break;
    }
    if (known && !gcra_.counts(ahead)) return {.admitted = false, .wait_ns = gcra_.refusal_ns(ahead)};
    const uint64_t next = tag | Gcra::next(known ? ahead : 0, now);
    // Another thread may have changed the entry meanwhile, to count an event of this key or for a new one.
    if (!place->compare_exchange_weak(old, next, std::memory_order_relaxed)) continue;
    if (known && !gcra_.conforms(ahead)) return {.wait_ns = gcra_.wait_ns(ahead)};
    return {.evicted = !known && ahead > 0};
  }
}

}  // namespace sluice
