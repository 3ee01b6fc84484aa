#include "proxy/config/model/http.h"

#include <optional>
#include <vector>

namespace sluice::config {

std::vector<HttpRoute> routes_of(const Http& http) {
  if (http.forward.empty()) return http.routes;
  return {HttpRoute{.match = std::nullopt, .forward = http.forward, .respond = std::nullopt}};
}

}  // namespace sluice::config
