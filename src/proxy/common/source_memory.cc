#include "proxy/common/source_memory.h"

#include <algorithm>

#include "absl/hash/hash.h"

namespace sluice {

// absl::Hash is seeded by the program's load address: sources that collide in one process do not in another.
SourceMemory::Columns SourceMemory::columns(const Source& source) {
  const uint64_t hash = absl::Hash<Source>()(source);
  return {hash % kColumns, (hash >> 32) % kColumns};
}

void SourceMemory::add(const Source& source, size_t bytes) {
  const Columns at = columns(source);
  for (size_t row = 0; row < kRows; ++row) counting_[row][at[row]] += static_cast<uint32_t>(bytes / 1024);
}

void SourceMemory::begin_round() {
  last_ = counting_;
  counting_ = {};
}

size_t SourceMemory::held(const Source& source) const {
  const Columns at = columns(source);
  uint32_t least = UINT32_MAX;
  for (size_t row = 0; row < kRows; ++row) least = std::min(least, last_[row][at[row]]);
  return size_t{least} * 1024;
}

}  // namespace sluice
