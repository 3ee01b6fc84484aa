#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// The path, without the query, that a route has an upstream asked for, or sends a client to. A view of what the facts
/// or the route have, or of `scratch`. Nothing where that has not enough room, or where what a regular expression makes
/// of the path has no canonical form under `paths`.
std::optional<std::string_view> changed_path(const config::PathChange& change,
                                             const std::optional<config::HttpMatch>& match,
                                             const RequestAttributes& facts, const config::Paths& paths,
                                             std::span<char> scratch);

/// What Location says (RFC 9110 section 10.2.2): a whole URI where scheme, host or port are given, else a path. A view
/// of `scratch`, or nothing as above.
std::optional<std::string_view> redirect_location(const config::Redirect& redirect,
                                                  const std::optional<config::HttpMatch>& match,
                                                  const RequestAttributes& facts, const config::Paths& paths,
                                                  std::span<char> scratch);

}  // namespace sluice
