#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// The endpoints that one connection or request has tried: all of the first 64, and the last four of those beyond. With
/// more than four of the latter, one may be tried twice.
class TriedEndpoints {
 public:
  void add(size_t index) {
    if (contains(index)) return;
    if (index < kFirst) {
      first_ |= uint64_t{1} << index;
    } else {
      std::shift_right(others_.begin(), others_.end(), 1);
      others_[0] = static_cast<uint32_t>(index);
    }
  }
  void remove(size_t index) {
    if (index < kFirst) {
      first_ &= ~(uint64_t{1} << index);
    } else {
      std::replace(others_.begin(), others_.end(), static_cast<uint32_t>(index), kNone);
    }
  }
  void add(const TriedEndpoints& others) {
    first_ |= others.first_;
    for (const uint32_t index : others.others_) {
      if (index != kNone) add(index);
    }
  }
  bool contains(size_t index) const {
    if (index < kFirst) return first_ >> index & 1;
    return std::find(others_.begin(), others_.end(), index) != others_.end();
  }
  /// The number of remembered endpoints.
  size_t count() const {
    const auto none = static_cast<size_t>(std::count(others_.begin(), others_.end(), kNone));
    return static_cast<size_t>(std::popcount(first_)) + others_.size() - none;
  }

 private:
  static constexpr size_t kFirst = 64;
  static constexpr uint32_t kNone = 0;  // An index below kFirst, so never in others_.

  uint64_t first_ = 0;                // A bit for each.
  std::array<uint32_t, 4> others_{};  // The most recent first.
};

}  // namespace sluice
