#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace sluice {

/// Memory for the exchanges of one worker, and for the proxy's own requests to upstreams, in blocks of one size.
class ExchangeMemory {
 public:
  /// Those who use it check that they fit.
  static constexpr size_t kBlockBytes = 624;

  ExchangeMemory() = default;
  ~ExchangeMemory() {
    for (void* block : free_) ::operator delete(block);
  }
  ExchangeMemory(const ExchangeMemory&) = delete;
  ExchangeMemory& operator=(const ExchangeMemory&) = delete;

  /// The block that was given back last is reused first.
  void* take() {
    if (free_.empty()) return ::operator new(kBlockBytes);
    void* const block = free_.back();
    free_.pop_back();
    return block;
  }
  void give(void* block) {
    if (free_.size() >= kFreeBlocks) return ::operator delete(block);
    free_.push_back(block);
  }

 private:
  // The memory of a burst beyond that is freed.
  static constexpr size_t kFreeBlocks = 1024;

  std::vector<void*> free_;
};

}  // namespace sluice
