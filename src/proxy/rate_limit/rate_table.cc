#include "proxy/rate_limit/rate_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <memory>

#include "sluice/internal/check.h"

namespace sluice {

namespace {

// The part of a key's hash that tells it apart in its bucket; never 0.
uint64_t tag_of(uint64_t key_hash) { return std::max<uint64_t>(key_hash >> Gcra::kTimeBits, 1) << Gcra::kTimeBits; }

}  // namespace

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

inline RateTable::Place RateTable::find(Bucket& bucket, uint64_t tag, uint64_t now) const {
  std::array<uint64_t, kBucketKeys> values;
  unsigned same = 0;  // A bit for each entry with this tag. No branch: which entry it is cannot be predicted.
  for (size_t i = 0; i < kBucketKeys; ++i) {
    values[i] = bucket.entries[i].load(std::memory_order_relaxed);
    same |= static_cast<unsigned>((values[i] ^ tag) <= Gcra::kTimeMask) << i;
  }
  if (same != 0) {
    const auto i = static_cast<size_t>(std::countr_zero(same));
    return {&bucket.entries[i], values[i], gcra_.ahead(values[i] & Gcra::kTimeMask, now), true};
  }
  Place place{nullptr, 0, std::numeric_limits<int64_t>::max(), false};
  for (size_t i = 0; i < kBucketKeys; ++i) {
    const int64_t ahead =
        values[i] == 0 ? std::numeric_limits<int64_t>::min() : gcra_.ahead(values[i] & Gcra::kTimeMask, now);
    if (ahead < place.ahead) place = {&bucket.entries[i], values[i], ahead, false};
  }
  return place;
}

RateVerdict RateTable::check(uint64_t key_hash, uint64_t now_ns) {
  const uint64_t tag = tag_of(key_hash);
  const uint64_t now = gcra_.ticks_at(now_ns);
  Bucket& bucket = buckets_[key_hash & mask_];
  while (true) {
    Place place = find(bucket, tag, now);
    if (place.known && !gcra_.counts(place.ahead)) {
      return {.admitted = false, .wait_ns = gcra_.refusal_ns(place.ahead)};
    }
    const uint64_t next = tag | Gcra::next(place.known ? place.ahead : 0, now);
    // Another thread may have changed the entry meanwhile, to count an event of this key or for a new one.
    if (!place.entry->compare_exchange_weak(place.value, next, std::memory_order_relaxed)) continue;
    if (place.known && !gcra_.conforms(place.ahead)) return {.wait_ns = gcra_.wait_ns(place.ahead)};
    return {.evicted = !place.known && place.ahead > 0};
  }
}

RateVerdict RateTable::count(uint64_t key_hash, int64_t bytes, uint64_t now_ns) {
  const uint64_t tag = tag_of(key_hash);
  const uint64_t now = gcra_.ticks_at(now_ns);
  Bucket& bucket = buckets_[key_hash & mask_];
  while (true) {
    Place place = find(bucket, tag, now);
    if (!place.known && bytes < 0) return {};  // It was forgotten.
    const int64_t ahead = gcra_.ahead_with(place.known ? place.ahead : 0, bytes);
    if (!place.entry->compare_exchange_weak(place.value, tag | Gcra::tat(ahead, now), std::memory_order_relaxed)) {
      continue;
    }
    return {.evicted = !place.known && place.ahead > 0, .wait_ns = gcra_.turn_ns(ahead)};
  }
}

}  // namespace sluice
