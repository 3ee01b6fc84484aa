#include "proxy/cli/balancing_words.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/config/load/scalar.h"
#include "proxy/router/request_key.h"
#include "proxy/upstream/balancer.h"
#include "proxy/upstream/sticky_cookie.h"

namespace sluice {
namespace {

std::string in_words(const config::Endpoint& endpoint) {
  std::vector<std::string> remarks;
  if (endpoint.is_resolved()) remarks.push_back("resolved at run time");
  if (endpoint.weight != 1) remarks.push_back(absl::StrCat("weight ", endpoint.weight));
  if (endpoint.priority != 0) remarks.push_back(absl::StrCat("priority ", endpoint.priority));
  return absl::StrCat(endpoint.text(), remarks.empty() ? "" : absl::StrCat(" (", absl::StrJoin(remarks, ", "), ")"));
}

std::string in_words(const config::HashKey& key) {
  if (!key.header.text().empty()) return absl::StrCat("the field ", key.header.text());
  if (!key.cookie.empty()) return absl::StrCat("the cookie ", key.cookie);
  if (!key.query.empty()) return absl::StrCat("the parameter ", key.query);
  return key.path ? "the path" : "the client's address";
}

// Whether some endpoints are names, whose addresses are not known here.
bool has_names(const config::Upstream& upstream) {
  return std::any_of(upstream.endpoints.begin(), upstream.endpoints.end(),
                     [](const config::Endpoint& endpoint) { return endpoint.is_resolved(); });
}

}  // namespace

std::string endpoints_in_words(const config::Upstream& upstream) {
  std::vector<std::string> endpoints;
  for (const config::Endpoint& endpoint : upstream.endpoints) endpoints.push_back(in_words(endpoint));
  const std::string balance = config::Scalar<config::Balance>::print(upstream.balance);
  return absl::StrCat(endpoints.size() == 1 ? "" : balance + " over ", absl::StrJoin(endpoints, ", "));
}

std::string chosen_endpoint(const config::Upstream& upstream, const RequestAttributes& facts) {
  if (upstream.endpoints.size() == 1) return "";
  UpstreamState state(upstream);
  Balancer balancer(state, 0);
  const auto name = [&](uint32_t slot) { return state.slots().text(slot); };
  std::string sets_cookie;
  if (upstream.sticky) {
    const auto named = find_sticky(*upstream.sticky, balancer.endpoints(), *facts.fields);
    if (named) return absl::StrCat(name(*named), ", which the cookie ", upstream.sticky->cookie, " names");
    sets_cookie = absl::StrCat("the response sets the cookie ", upstream.sticky->cookie);
  }
  const std::optional<uint64_t> hash = hash_of_request(upstream.hash, facts);
  if (!balancer.needs_hash() || !hash || has_names(upstream)) return sets_cookie;
  const config::HashKey key = upstream.hash.value_or(config::HashKey{.source = true});
  const bool lacks_it = !key.source && find_key(key, facts).empty();
  return absl::StrCat(name(balancer.pick({.hash = hash}).value()), ", by ",
                      lacks_it ? absl::StrCat("the client's address, without ", in_words(key)) : in_words(key),
                      sets_cookie.empty() ? "" : "; ", sets_cookie);
}

}  // namespace sluice
