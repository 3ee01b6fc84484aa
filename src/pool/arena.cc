#include "pool/arena.h"

#include <sys/mman.h>

#include <algorithm>

#include "pool/sanitizer.h"
#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

Arena::Arena(Options options) {
  if (options.memory) {
    base_ = options.memory;
    limit_ = std::min<size_t>(options.reserve_bytes / kSlabBytes, kNoSlab - 1);
    given_ = true;
    free_.reserve(limit_);
    return;
  }
  const auto slabs = [](size_t bytes) {
    return std::clamp<size_t>((bytes + kSlabBytes - 1) / kSlabBytes, 1, kNoSlab - 1);
  };
  const size_t least = slabs(std::min(options.least_bytes, options.reserve_bytes));
  void* base = MAP_FAILED;
  for (limit_ = slabs(options.reserve_bytes);; limit_ = std::max(limit_ / 2, least)) {
    base =
        mmap(nullptr, limit_ * kSlabBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base != MAP_FAILED || limit_ == least) break;
  }
  if (base == MAP_FAILED) {
    limit_ = 0;
    return;
  }
  const size_t bytes = limit_ * kSlabBytes;
  base_ = static_cast<std::byte*>(base);
  // Transparent huge pages may be enabled system-wide, so choose explicitly.
  madvise(base_, bytes, options.huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  free_.reserve(limit_);
}

Arena::~Arena() {
  if (abandoned_ || !reserved()) return;
  unpoison(base_, limit_ * kSlabBytes);
  if (!given_) munmap(base_, limit_ * kSlabBytes);
}

uint16_t Arena::take() {
  if (!free_.empty()) {
    const uint16_t slab = free_.back();
    free_.pop_back();
    return slab;
  }
  if (next_ == limit_) return kNoSlab;
  return static_cast<uint16_t>(next_++);
}

bool Arena::give_back(uint16_t slab) {
  SLUICE_CHECK(slab < next_);
  const bool returned = discard(slab_data(slab), kSlabBytes) > 0;
  free_.push_back(slab);
  return returned;
}

size_t Arena::discard(std::byte* data, size_t bytes) {
  if (given_) return 0;
  SLUICE_CHECK(madvise(data, bytes, MADV_DONTNEED) == 0);
  return bytes;
}

}  // namespace sluice::inline v0_1
