#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace sluice::config {

inline constexpr uint64_t kNoMaximum = std::numeric_limits<uint64_t>::max();

/// The rules for a field's value. Bounds count milliseconds, bytes, or items of a list.
struct Rules {
  bool required = false;
  std::string_view unless{};  ///< The field is not required if this key is present in the same map.
  bool omit_empty = false;    ///< The printer omits an empty value, because an absent key and an empty value differ.
  bool one_word = false;      ///< A list of one item may be written as the item alone: a scalar or a map.
  uint64_t min = 0;
  uint64_t max = kNoMaximum;
  uint64_t step = 1;                ///< The value must be a multiple of this.
  std::string_view default_text{};  ///< For the reference, if the default depends on other keys.
};

}  // namespace sluice::config
