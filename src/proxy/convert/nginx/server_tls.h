// TLS with clients.
#pragma once

#include "proxy/convert/nginx/listen.h"

namespace sluice::convert::nginx {

enum class TlsResult : uint8_t {
  kDone,
  kNone,    ///< There is no certificate that can be used: the listener is left out.
  kClosed,  ///< Clients would be let in that nginx keeps out: nobody may be.
};

/// Writes `tls` of the listener. `context`: `http` or `stream`.
TlsResult put_server_tls(const ServerGroup& group, const Scope& context, State& state, config::Node& listener);

}  // namespace sluice::convert::nginx
