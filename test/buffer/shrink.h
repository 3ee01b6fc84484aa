// Makes a failing input smaller.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::test {

/// The smallest input found for which `fails(input)` still holds, after at most `max_attempts` calls. It removes runs
/// of bytes, long ones first, until no single one can be removed, and then sets bytes to zero. Precondition:
/// fails(input).
template <typename Fails>
std::vector<uint8_t> shrunk(std::vector<uint8_t> input, Fails fails, size_t max_attempts = 5000) {
  size_t attempts = 0;
  const auto replace_if_it_fails = [&](std::vector<uint8_t> smaller) {
    if (attempts >= max_attempts) return false;
    ++attempts;
    if (!fails(smaller)) return false;
    input = std::move(smaller);
    return true;
  };
  for (size_t run = std::max<size_t>(input.size() / 2, 1);;) {
    bool shorter = false;
    for (size_t at = 0; at < input.size();) {
      const auto begin = input.begin() + static_cast<ptrdiff_t>(at);
      const auto end = begin + static_cast<ptrdiff_t>(std::min(run, input.size() - at));
      std::vector<uint8_t> without(input.begin(), begin);
      without.insert(without.end(), end, input.end());
      if (replace_if_it_fails(std::move(without))) {
        shorter = true;
      } else {
        at += run;
      }
    }
    if (attempts >= max_attempts || (run == 1 && !shorter)) break;
    run = std::max<size_t>(run / 2, 1);
  }
  for (size_t at = 0; at < input.size(); ++at) {
    if (input[at] == 0) continue;
    std::vector<uint8_t> simpler = input;
    simpler[at] = 0;
    replace_if_it_fails(std::move(simpler));
  }
  return input;
}

}  // namespace sluice::test
