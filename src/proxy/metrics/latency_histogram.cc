#include "proxy/metrics/latency_histogram.h"

namespace sluice {

size_t LatencyHistogram::bucket_of(uint64_t ms) {
  size_t bucket = 0;
  while (bucket < kBounds.size() && ms > kBounds[bucket].ms) ++bucket;
  return bucket;
}

void LatencySum::add(const LatencyHistogram& histogram) {
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += histogram.bucket(i);
  sum_ms += histogram.sum_ms();
}

void LatencySum::add(const LatencySum& other) {
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
  sum_ms += other.sum_ms;
}

uint64_t LatencySum::count() const {
  uint64_t count = 0;
  for (const uint64_t each : buckets) count += each;
  return count;
}

std::optional<double> LatencySum::quantile(double part) const {
  const uint64_t all = count();
  if (all == 0) return std::nullopt;
  const double rank = part * static_cast<double>(all);
  double before = 0, lower = 0;
  for (size_t i = 0; i < LatencyHistogram::kBounds.size(); ++i) {
    const double upper = LatencyHistogram::kBounds[i].seconds;
    const auto here = static_cast<double>(buckets[i]);
    if (here > 0 && before + here >= rank) return lower + (upper - lower) * ((rank - before) / here);
    before += here;
    lower = upper;
  }
  return lower;
}

}  // namespace sluice
