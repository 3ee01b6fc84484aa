// Regular expressions of other proxies, which fit a part of a text, as those of Sluice, which fit all of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/convert/common/path_set.h"

namespace sluice::convert {

/// An expression that matches the whole of each text in which `regex` matches a part. Nothing if RE2 does not accept
/// it.
std::optional<std::string> whole_regex_of(std::string_view regex, bool any_case);

/// The same for paths.
std::optional<PathSet> path_regex(std::string_view regex, bool any_case);

/// The hosts that an expression fits, as patterns; nothing if they cannot be said.
std::optional<std::vector<std::string>> hosts_of_regex(std::string_view regex);

}  // namespace sluice::convert
