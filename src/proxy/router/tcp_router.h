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

/// What is known of a connection when its route is chosen.
struct TcpFacts {
  const ClientHello* hello =
      nullptr;  ///< Or what was agreed on in its place; null: none was looked at, or it is not TLS.
  const Agreement* agreed = nullptr;  ///< Where TLS or ALTS was terminated; else null.
};

/// A TCP listener's routing table: the first route, in the order of the configuration, whose conditions all hold.
class TcpRouter {
 public:
  TcpRouter() = default;
  /// Upstream names in `tcp` are those in `upstreams`.
  TcpRouter(const config::Tcp& tcp, const std::vector<config::Upstream>& upstreams);

  /// Whether some route looks at the ClientHello.
  bool needs_hello() const { return needs_hello_; }
  /// Index of the upstream for a connection. What is not known fits no condition.
  std::optional<uint32_t> route(const TcpFacts& facts) const;

 private:
  struct Route {
    uint32_t upstream;
    std::vector<std::string> alpn;
    std::vector<std::string> peer;
  };
  static bool fits(const Route& route, const TcpFacts& facts);

  std::vector<Route> routes_;
  std::vector<uint32_t> unnamed_;  // Routes without server names, in order.
  NameTable names_;                // Values are indices of routes.
  bool needs_hello_ = false;
};

}  // namespace sluice
