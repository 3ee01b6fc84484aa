#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "absl/strings/ascii.h"

namespace sluice::config {

/// Bounds on the names of listeners, upstreams and routes, which become labels of counters.
inline constexpr size_t kMaxNameBytes = 64;
inline constexpr std::string_view kNameRule = "a name of 1 to 64 letters, digits, `_`, `-` and `.`";

inline bool is_name(std::string_view name) {
  const auto fits = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.'; };
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), fits);
}

}  // namespace sluice::config
