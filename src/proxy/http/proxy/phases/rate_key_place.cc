#include "proxy/http/proxy/phases/rate_key_place.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace sluice {

namespace {

std::string claim_header_of(const config::HttpRoute* route, std::string_view claim) {
  if (!route || !route->auth || !route->auth->jwt) return "";
  const auto& claims = route->auth->jwt->claims;
  const auto found = std::find_if(claims.begin(), claims.end(), [&](const auto& each) { return each.claim == claim; });
  return found == claims.end() ? "" : found->header.text();
}

}  // namespace

RateKeyPlace place_of_route(const PhaseSetup& setup, const config::RateKey& key) {
  const config::HttpRoute* const route = setup.route();
  return {.route = rate_key_of_route(RateSecret::of_process(), setup.listener, route ? route->name : "",
                                     setup.target ? setup.target->index : UINT32_MAX),
          .claim_header = claim_header_of(route, key.jwt_claim)};
}

std::vector<std::string> names_of_both(const std::vector<std::string>& listener,
                                       const std::vector<std::string>* route) {
  std::vector<std::string> names = listener;
  if (!route) return names;
  for (const std::string& name : *route) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace sluice
