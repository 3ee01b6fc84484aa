// The replacement of what a path begins with, as `rewrite` and `redirect`.
#pragma once

#include <string>
#include <string_view>

#include "proxy/convert/common/path_set.h"

namespace sluice::convert {

/// Writes to `out`, a `rewrite` or a `redirect`, that the part of a path that `matched` fits becomes `replacement`.
/// `now`: the paths of the route, which may be fewer. Returns false if that cannot be said.
bool put_prefix_change(const PathSet& matched, const std::string& replacement, const PathSet& now, config::Node& out);

/// `text` as a part of a `substitution`.
std::string literal_substitution(std::string_view text);

}  // namespace sluice::convert
