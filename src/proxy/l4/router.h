#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alts_like/client_hello.h"
#include "proxy/config/config.h"
#include "proxy/l4/name_match.h"

namespace sluice {

/// A TCP listener's routing table: the first route, in the order of the configuration, whose conditions all hold.
class TcpRouter {
 public:
  /// Upstream names in `tcp` are those in `upstreams`.
  TcpRouter(const config::Tcp& tcp, const std::vector<config::Upstream>& upstreams);

  /// Whether some route looks at the ClientHello.
  bool needs_hello() const { return needs_hello_; }
  /// Index of the upstream for a connection whose ClientHello is `hello` (null: none was looked at, or it is not TLS,
  /// which only a route without conditions takes).
  std::optional<uint32_t> route(const ClientHello* hello) const;

 private:
  struct Route {
    uint32_t upstream;
    bool any;  // No conditions.
    std::vector<std::string> alpn;
  };
  bool alpn_fits(const Route& route, const ClientHello& hello) const;

  std::vector<Route> routes_;
  std::vector<uint32_t> unnamed_;  // Routes without server names, in order.
  NameTable names_;                // Values are indices of routes.
  bool needs_hello_ = false;
};

}  // namespace sluice
