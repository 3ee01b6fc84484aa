#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// Returns the path, without the query, that a route sends to its upstream or redirects a client to. A view of the
/// attributes, of the route, or of `scratch`. Returns nullopt if `scratch` is too small, or if the result of a regular
/// expression has no canonical form under `paths`.
std::optional<std::string_view> changed_path(const config::PathChange& change,
                                             const std::optional<config::HttpMatch>& match,
                                             const RequestAttributes& facts, const config::Paths& paths,
                                             std::span<char> scratch);

/// Returns the value of Location (RFC 9110 section 10.2.2): a full URI if the redirect sets scheme, host or port, else
/// a path. A view of `scratch`, or nullopt as in changed_path() or if a full URI has no host.
std::optional<std::string_view> redirect_location(const config::Redirect& redirect,
                                                  const std::optional<config::HttpMatch>& match,
                                                  const RequestAttributes& facts, const config::Paths& paths,
                                                  std::span<char> scratch);

}  // namespace sluice
