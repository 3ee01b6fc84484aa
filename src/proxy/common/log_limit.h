#pragma once

#include <cstdint>
#include <utility>

namespace sluice {

/// A limit on log lines: admits the first few of each second, so that neither a scan nor a broken endpoint fills a
/// disk.
class LogLimit {
 public:
  static constexpr uint32_t kPerSecond = 10;

  /// Whether one more line may be written; if so, counts it. `now_ms` is in milliseconds of any one clock.
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
