#pragma once

#include <cstdint>
#include <utility>

namespace sluice {

/// A limit on log lines: admits the first few of each second, so that neither a scan nor a broken endpoint fills a
/// disk.
class LogLimit {
 public:
  static constexpr uint32_t kPerSecond = 10;

  explicit constexpr LogLimit(uint32_t per_second = kPerSecond) : per_second_(per_second) {}

  /// Whether one more line may be written; if so, counts it. `now_ms` is in milliseconds of any one clock.
  bool admits(uint64_t now_ms) {
    if (std::exchange(second_, now_ms / 1000) != now_ms / 1000) written_ = 0;
    if (written_ == per_second_) {
      ++left_out_;
      return false;
    }
    ++written_;
    return true;
  }
  /// The lines that were not admitted since the last call.
  uint64_t take_left_out() { return std::exchange(left_out_, 0); }

 private:
  uint32_t per_second_;
  uint32_t written_ = 0;
  uint64_t second_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace sluice
