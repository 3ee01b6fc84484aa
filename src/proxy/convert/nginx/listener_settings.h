// What holds for a whole listener.
#pragma once

#include <set>

#include "proxy/convert/nginx/listen.h"

namespace sluice::convert::nginx {

/// Writes keys of the listener, but for `tls` and `http`. Returns false if clients would be let in that nginx keeps
/// out.
bool put_listener_settings(const ServerGroup& group, const Scope& context, State& state, config::Node& listener);

/// Writes keys of `http`, but for the routes. Returns false as above.
bool put_http_settings(const ServerGroup& group, const Scope& context, State& state, config::Node& http);

/// Writes `errors`. Returns the locations that hold their pages.
std::set<const Directive*> put_error_pages(const ServerGroup& group, const Scope& context, State& state,
                                           config::Node& http);

}  // namespace sluice::convert::nginx
