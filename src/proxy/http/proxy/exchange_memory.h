#pragma once

#include <cstddef>

#include "proxy/http/proxy/block_memory.h"

namespace sluice {

/// Memory for the exchanges of one worker, and for the proxy's own requests to upstreams, in blocks of one size.
class ExchangeMemory : public BlockMemory {
 public:
  /// Those who use it check that they fit.
  static constexpr size_t kBlockBytes = 632;

  ExchangeMemory() : BlockMemory(kBlockBytes) {}
};

}  // namespace sluice
