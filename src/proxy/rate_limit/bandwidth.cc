#include "proxy/rate_limit/bandwidth.h"

#include <algorithm>

#include "sluice/internal/check.h"

namespace sluice {

namespace {

// What a body should wait between two pieces: as many of them a second let the flow look steady, and cost little.
constexpr uint64_t kWantedNs = 125'000'000;
constexpr uint64_t kSecondNs = 1'000'000'000;

}  // namespace

void Bandwidth::add(const WorkerRateLimit& limit, uint64_t key_hash) {
  SLUICE_CHECK(count_ < limits_.size());
  limits_[count_++] = {&limit, key_hash};
  const uint64_t rate = limit.limiter->config().rate.per_second();
  bytes_per_second_ = std::min(bytes_per_second_, rate);
  const uint64_t wanted = rate / (kSecondNs / kWantedNs);
  largest_bytes_ = std::clamp<size_t>(wanted, kMinPieceBytes, largest_bytes_);
  piece_bytes_ = largest_bytes_;
}

// The more bodies share the rate of a key, the longer each waits, and the shorter its pieces become.
uint64_t Bandwidth::reserve(size_t bytes, uint64_t now_us) {
  uint64_t longest_ns = 0;
  for (size_t i = 0; i < count_; ++i) {
    longest_ns = std::max(longest_ns, limits_[i].limit->reserve(limits_[i].key_hash, bytes, now_us));
  }
  if (longest_ns > 2 * kWantedNs) {
    piece_bytes_ = std::max(piece_bytes_ / 2, kMinPieceBytes);
  } else if (longest_ns < kWantedNs) {
    piece_bytes_ = std::min(piece_bytes_ * 2, largest_bytes_);
  }
  return longest_ns;
}

void Bandwidth::give_back(size_t bytes, uint64_t now_us) const {
  for (size_t i = 0; i < count_; ++i) limits_[i].limit->give_back(limits_[i].key_hash, bytes, now_us);
}

}  // namespace sluice
