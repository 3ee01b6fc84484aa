#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace sluice::convert::haproxy {

/// A parameter of a `bind` or `server` line.
struct ParameterRule {
  std::string_view name;
  bool takes_value;  ///< The next word belongs to it.
  bool is_ignored;   ///< It means nothing here, or Sluice does it by itself.
};

/// Null: the parameter is not known.
inline const ParameterRule* find_parameter(std::span<const ParameterRule> rules, std::string_view name) {
  const auto found =
      std::find_if(rules.begin(), rules.end(), [&](const ParameterRule& rule) { return rule.name == name; });
  return found == rules.end() ? nullptr : &*found;
}

}  // namespace sluice::convert::haproxy
