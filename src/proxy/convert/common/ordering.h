#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace sluice::convert {

/// Sorts `all`, and leaves those that are equal in their order. std::stable_sort uses what C++20 has deprecated.
template <typename T, typename Less>
void sort_in_order(std::vector<T>& all, const Less& less) {
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (less(all[a], all[b])) return true;
    return a < b && !less(all[b], all[a]);
  });
  std::vector<T> sorted;
  sorted.reserve(all.size());
  for (const size_t index : order) sorted.push_back(std::move(all[index]));
  all = std::move(sorted);
}

}  // namespace sluice::convert
