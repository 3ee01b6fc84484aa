// What nginx's `return` does, as an action of a route.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proxy/convert/nginx/server_context.h"

namespace sluice::convert::nginx {

/// The route of `return`; one that closes, with a finding, if it has no counterpart.
config::Node return_node(const Directive& directive, const Scope& scope, ServerContext& server);

/// Writes a redirect to `url` to `out`: `https://$host$request_uri`, `/new/\1`. With `regex`, the path may have its
/// groups, as `$1`. Returns false if it cannot be said.
bool put_redirect(std::string_view url, std::string_view regex, const ServerContext& server, config::Node& out);

}  // namespace sluice::convert::nginx
