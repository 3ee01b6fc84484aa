#include "proxy/compression/compressor_pool.h"

#include <utility>

namespace sluice {

std::unique_ptr<Compressor> CompressorPool::take(ContentCoding coding) {
  auto& kept = kept_[static_cast<size_t>(coding)];
  if (kept.empty()) return make_compressor(coding);
  std::unique_ptr<Compressor> compressor = std::move(kept.back());
  kept.pop_back();
  return compressor;
}

void CompressorPool::give(ContentCoding coding, std::unique_ptr<Compressor> compressor) {
  auto& kept = kept_[static_cast<size_t>(coding)];
  if (kept.size() < kKept) kept.push_back(std::move(compressor));
}

}  // namespace sluice
