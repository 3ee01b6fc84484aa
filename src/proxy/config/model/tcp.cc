#include "proxy/config/model/tcp.h"

#include <optional>
#include <vector>

namespace sluice::config {

std::vector<TcpRoute> routes_of(const Tcp& tcp) {
  if (tcp.forward.empty()) return tcp.routes;
  return {TcpRoute{.match = std::nullopt, .forward = tcp.forward}};
}

}  // namespace sluice::config
