// The locations of a server, as routes in the order in which nginx looks for them.
#pragma once

#include <vector>

#include "proxy/convert/nginx/server_context.h"

namespace sluice::convert::nginx {

/// All routes of the server, without its names. The last one takes all that is left.
std::vector<Route> server_routes(ServerContext& server);

}  // namespace sluice::convert::nginx
