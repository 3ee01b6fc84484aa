// What a location does with its requests, as a route.
#pragma once

#include <optional>

#include "proxy/convert/nginx/rewrites.h"
#include "proxy/convert/nginx/server_context.h"

namespace sluice::convert::nginx {

/// The route of a location, without `match`. `path`: the paths that it takes; `rewrite`: how they change before.
config::Node location_node(const Scope& scope, const PathSet& path, const std::optional<PathRewrite>& rewrite,
                           ServerContext& server);

}  // namespace sluice::convert::nginx
