#pragma once

#include <cstdint>
#include <utility>

namespace sluice {

/// Lets the first few lines of each second through: neither a scan nor a broken endpoint must fill a disk.
class LogLimit {
 public:
  static constexpr uint32_t kPerSecond = 10;

  /// Whether one more is to be written. `now_ms`: by any one clock.
  bool admits(uint64_t now_ms) {
    if (std::exchange(second_, now_ms / 1000) != now_ms / 1000) written_ = 0;
    if (written_ == kPerSecond) return false;
    ++written_;
    return true;
  }

 private:
  uint64_t second_ = 0;
  uint32_t written_ = 0;
};

}  // namespace sluice
