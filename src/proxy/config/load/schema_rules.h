#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace sluice::config {

inline constexpr uint64_t kNoMaximum = std::numeric_limits<uint64_t>::max();

/// What a field's value must obey. Bounds count milliseconds, bytes, or items of a list.
struct Rules {
  bool required = false;
  std::string_view unless{};  ///< This key of the same map stands in for it.
  bool omit_empty = false;    ///< The printer leaves an empty one out, as "given" and "empty" mean different things.
  bool one_word = false;      ///< A list of one may be written as the one.
  uint64_t min = 0;
  uint64_t max = kNoMaximum;
  uint64_t step = 1;                ///< The value must be a multiple of it.
  std::string_view default_text{};  ///< For the reference, where the default depends on something else.
};

}  // namespace sluice::config
