#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alts_like/client_hello.h"
#include "alts_like/handshake.h"
#include "proxy/common/name_match.h"
#include "proxy/config/model/config.h"

namespace sluice {

/// The attributes of a connection when its route is chosen.
struct TcpFacts {
  /// The ClientHello, or the result of the handshake in its place. Null if none was read, or the connection is not TLS.
  const ClientHello* hello = nullptr;
  const Agreement* agreed = nullptr;  ///< Null unless TLS or ALTS was terminated.
};

/// A route that was found: its place in the configuration, and that of its upstream.
struct TcpTarget {
  uint32_t route = 0;
  uint32_t upstream = 0;
};

/// The routing table of a TCP listener: finds the first route, in configuration order, whose conditions all hold.
class TcpRouter {
 public:
  TcpRouter() = default;
  /// Precondition: every upstream that `tcp` names is in `upstreams`.
  TcpRouter(const config::Tcp& tcp, const std::vector<config::Upstream>& upstreams);

  /// Whether some route has a condition on the ClientHello.
  bool needs_hello() const { return needs_hello_; }
  /// Returns the route of a connection, or nullopt if none matches. An unknown attribute matches no condition.
  std::optional<TcpTarget> route(const TcpFacts& facts) const;

 private:
  struct Route {
    uint32_t upstream;
    std::vector<std::string> alpn;
    std::vector<std::string> peer;
  };
  static bool fits(const Route& route, const TcpFacts& facts);

  std::vector<Route> routes_;
  std::vector<uint32_t> unnamed_;  // Indices of routes without server names, ascending.
  NameTable names_;                // Values are indices of routes.
  bool needs_hello_ = false;
};

}  // namespace sluice
