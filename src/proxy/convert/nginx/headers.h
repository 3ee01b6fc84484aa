// Changes to the fields of requests and responses.
#pragma once

#include "proxy/convert/nginx/access.h"
#include "proxy/convert/nginx/server_context.h"
#include "proxy/convert/nginx/upstreams.h"

namespace sluice::convert::nginx {

/// Writes what `proxy_set_header` says to the route, and the Host that nginx sends. Returns whether the location
/// passes websockets on.
bool put_request_headers(const Scope& scope, Spoken spoken, const PassTarget& target, const Access& access,
                         ServerContext& server, config::Node& route);

/// Writes what `add_header` and `proxy_hide_header` say.
void put_response_headers(const Scope& scope, Spoken spoken, ServerContext& server, config::Node& route);

}  // namespace sluice::convert::nginx
