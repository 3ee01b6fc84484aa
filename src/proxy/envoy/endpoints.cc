#include "proxy/envoy/endpoints.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/address.h"
#include "proxy/envoy/values.h"

namespace sluice::envoy {
namespace {

using config::Node;

constexpr uint64_t kMaxEndpointWeight = 1000;
constexpr uint64_t kMaxPriority = 15;
constexpr uint64_t kMaxWeight = UINT32_MAX;  // Of Envoy's API.

struct MappedEndpoint {
  std::string address;
  std::string host_name;
  uint64_t weight = 1;
  uint64_t priority = 0;
  const Node* socket_criteria = nullptr;
};

// The metadata that choose a transport socket, or null.
const Node* socket_criteria_of(const Message& entry) {
  const Node* node = entry.find("metadata");
  for (const std::string_view key : {"filter_metadata", "envoy.transport_socket_match"}) {
    if (node == nullptr || node->kind != Node::Kind::kMap) return nullptr;
    node = node->find(key);
  }
  return node;
}

bool is_out_of_use(const std::string& health) {
  return health == "UNHEALTHY" || health == "DRAINING" || health == "TIMEOUT";
}

void add_endpoint(const Message& entry, uint64_t priority, bool by_name, std::vector<MappedEndpoint>& all) {
  if (const std::string health = entry.text("health_status"); is_out_of_use(health)) {
    entry.ignore("health_status", absl::StrCat("the endpoint is left out: it is ", health));
    return;
  }
  const Message endpoint = entry.sub("endpoint");
  MappedEndpoint made{
      .address = address_text(endpoint, "address"), .priority = priority, .socket_criteria = socket_criteria_of(entry)};
  if (made.address.empty()) return;
  if (!config::Address::parse(made.address).ok()) {
    if (!by_name) {
      endpoint.refuse("address", absl::StrCat(config::in_quotes(made.address),
                                              " is a name: names need a cluster of type STRICT_DNS or LOGICAL_DNS"));
      return;
    }
    made.host_name = made.address.substr(0, made.address.rfind(':'));
  }
  if (const std::string name = endpoint.text("hostname"); !name.empty()) made.host_name = name;
  made.weight = std::clamp<uint64_t>(entry.number("load_balancing_weight").value_or(1), 1, kMaxWeight);
  all.push_back(std::move(made));
}

// The endpoints of a locality, and its weight.
struct Share {
  size_t first = 0;
  size_t end = 0;
  uint64_t weight = 0;
};

// Gives each locality its share, which its endpoints divide by their weights.
void weigh_localities(const std::vector<Share>& shares, std::vector<MappedEndpoint>& all) {
  if (shares.size() < 2) return;
  // Of one endpoint each: the weights stay as they are written.
  const auto single = [](const Share& share) { return share.end - share.first == 1; };
  const uint64_t precision = std::all_of(shares.begin(), shares.end(), single) ? 1 : 10000;
  for (const Share& share : shares) {
    double sum = 0;
    for (size_t i = share.first; i < share.end; ++i) sum += static_cast<double>(all[i].weight);
    for (size_t i = share.first; i < share.end; ++i) {
      const double part = static_cast<double>(share.weight * precision) * static_cast<double>(all[i].weight) / sum;
      all[i].weight = std::max<uint64_t>(static_cast<uint64_t>(std::llround(part)), 1);
    }
  }
}

// Envoy's weights have 32 bits.
void scale_weights(std::vector<MappedEndpoint>& all) {
  uint64_t most = 1;
  for (const MappedEndpoint& each : all) most = std::max(most, each.weight);
  if (most <= kMaxEndpointWeight) return;
  for (MappedEndpoint& each : all) each.weight = std::max<uint64_t>(each.weight * kMaxEndpointWeight / most, 1);
}

Node endpoint_node(const MappedEndpoint& endpoint) {
  if (endpoint.weight == 1 && endpoint.priority == 0) return scalar_node(endpoint.address);
  Node out = map_node();
  put(out, "address", endpoint.address);
  if (endpoint.weight != 1) put(out, "weight", absl::StrCat(endpoint.weight));
  if (endpoint.priority != 0) put(out, "priority", absl::StrCat(endpoint.priority));
  return out;
}

// The same weight for all is none.
void drop_equal_weights(std::vector<MappedEndpoint>& all) {
  const auto same = [&](const MappedEndpoint& each) { return each.weight == all.front().weight; };
  if (!std::all_of(all.begin(), all.end(), same)) return;
  for (MappedEndpoint& each : all) each.weight = 1;
}

}  // namespace

void map_endpoints(const Message& assignment, bool by_name, bool by_locality, MappedUpstream& upstream) {
  std::vector<MappedEndpoint> all;
  std::vector<Share> shares;
  for (const Message& locality : assignment.subs("endpoints")) {
    uint64_t priority = locality.number("priority").value_or(0);
    if (priority > kMaxPriority) {
      locality.ignore("priority", absl::StrCat("the highest is ", kMaxPriority));
      priority = kMaxPriority;
    }
    const size_t first = all.size();
    for (const Message& entry : locality.subs("lb_endpoints")) add_endpoint(entry, priority, by_name, all);
    if (!by_locality) continue;
    const uint64_t weight = std::min(locality.number("load_balancing_weight").value_or(0), kMaxWeight);
    if (weight == 0) {
      all.resize(first);  // It gets no load.
    } else if (all.size() > first) {
      shares.push_back({.first = first, .end = all.size(), .weight = weight});
    }
  }
  weigh_localities(shares, all);
  scale_weights(all);
  if (!all.empty()) drop_equal_weights(all);
  Node endpoints = list_node();
  for (const MappedEndpoint& each : all) {
    endpoints.items.push_back(endpoint_node(each));
    upstream.socket_criteria.push_back(each.socket_criteria);
  }
  upstream.endpoints = all.size();
  upstream.is_usable = !all.empty();
  if (all.size() == 1) upstream.host_name = all.front().host_name;
  if (!all.empty()) put(upstream.out, "endpoints", std::move(endpoints));
  if (const auto factor = assignment.sub("policy").number("overprovisioning_factor"); factor && *factor > 0) {
    const auto share = static_cast<uint64_t>(std::lround(10000.0 / static_cast<double>(*factor)));
    put(upstream.out, "failover_below", absl::StrCat(std::clamp<uint64_t>(share, 1, 100)));
  }
}

}  // namespace sluice::envoy
