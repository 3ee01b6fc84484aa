#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>

namespace sluice::inline v0_1 {

/// The `count` numbers from `begin` on.
struct Range {
  size_t begin = 0;
  size_t count = 0;
};

/// A set of numbers, stored as disjoint ranges.
class RangeSet {
 public:
  size_t count() const { return count_; }
  bool empty() const { return count_ == 0; }

  /// Adds a range. Precondition: none of its numbers is in the set.
  void add(Range range) {
    if (range.count == 0) return;
    count_ += range.count;
    auto next = ranges_.lower_bound(range.begin);
    if (next != ranges_.end() && next->first == range.begin + range.count) {
      range.count += next->second;
      next = ranges_.erase(next);
    }
    if (next != ranges_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == range.begin) {
        before->second += range.count;
        return;
      }
    }
    ranges_.emplace_hint(next, range.begin, range.count);
  }

  /// Removes and returns up to `most` consecutive numbers, from the lowest or the highest range. Empty if the set is
  /// empty.
  Range take_lowest(size_t most) {
    if (empty() || most == 0) return {};
    const auto lowest = ranges_.begin();
    const Range range{lowest->first, std::min(most, lowest->second)};
    const size_t rest = lowest->second - range.count;
    ranges_.erase(lowest);
    if (rest > 0) ranges_.emplace_hint(ranges_.begin(), range.begin + range.count, rest);
    count_ -= range.count;
    return range;
  }
  Range take_highest(size_t most) {
    if (empty() || most == 0) return {};
    const auto highest = std::prev(ranges_.end());
    const size_t count = std::min(most, highest->second);
    const Range range{highest->first + highest->second - count, count};
    highest->second -= count;
    if (highest->second == 0) ranges_.erase(highest);
    count_ -= count;
    return range;
  }

 private:
  std::map<size_t, size_t> ranges_;  // Begin -> count.
  size_t count_ = 0;
};

}  // namespace sluice::inline v0_1
