#pragma once

#include <string>
#include <vector>

#include "proxy/config/model/config.h"

namespace sluice {

/// Fields in which upstreams are told who a client has proven to be: those with claims of a token, and those made of
/// %{peer}. No client may say one of them, on any route of the listener.
std::vector<std::string> reserved_headers(const config::Http& http);

/// Fields that no client may put behind a body, where nothing looks at them any more: those above, those with a proof
/// (jwt.header), those that `request_headers` of any route set, add or remove, and those of ids (request_id, and
/// traceparent and tracestate unless trace_context is off).
std::vector<std::string> reserved_trailers(const config::Http& http);

}  // namespace sluice
