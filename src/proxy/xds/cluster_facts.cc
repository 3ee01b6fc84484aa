#include "proxy/xds/cluster_facts.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proxy/config/model/address.h"
#include "proxy/envoy/message.h"

namespace sluice::xds {
namespace {

using config::Node;

// Static resources may have names of fields in lowerCamelCase.
const Node* field_in(const Node* map, std::string_view name) {
  if (map == nullptr || map->kind != Node::Kind::kMap) return nullptr;
  for (size_t i = 0; i < map->keys.size(); ++i) {
    if (envoy::snake_case(map->keys[i].text) == name) return &map->items[i];
  }
  return nullptr;
}

std::string text_in(const Node* map, std::string_view name) {
  const Node* const value = field_in(map, name);
  return value != nullptr ? value->text : std::string();
}

template <class Visit>
void each_in(const Node* map, std::string_view name, const Visit& visit) {
  const Node* const list = field_in(map, name);
  if (list == nullptr || list->kind != Node::Kind::kList) return;
  for (const Node& item : list->items) visit(item);
}

// As the configuration writes it.
std::string endpoint_text(const Node* address) {
  if (const Node* const pipe = field_in(address, "pipe")) return absl::StrCat("unix:", text_in(pipe, "path"));
  const Node* const socket = field_in(address, "socket_address");
  const std::string host = text_in(socket, "address"), port = text_in(socket, "port_value");
  const std::string text =
      absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
  const absl::StatusOr<config::Address> parsed = config::Address::parse(text);
  return parsed.ok() ? parsed->text() : text;
}

void add_places(const Node* assignment, ClusterFacts& facts) {
  each_in(assignment, "endpoints", [&](const Node& group) {
    const Node* const locality = field_in(&group, "locality");
    EndpointLocality place{.region = text_in(locality, "region"),
                           .zone = text_in(locality, "zone"),
                           .sub_zone = text_in(locality, "sub_zone")};
    (void)absl::SimpleAtoi(text_in(&group, "priority"), &place.priority);
    each_in(&group, "lb_endpoints", [&](const Node& item) {
      facts.places.emplace(endpoint_text(field_in(field_in(&item, "endpoint"), "address")), place);
    });
  });
}

bool wants_reports_of(const Node& cluster) { return field_in(field_in(&cluster, "lrs_server"), "self") != nullptr; }

ClusterFacts facts_of(const Node& cluster, const ResourceStore& in_use, bool is_static) {
  ClusterFacts facts{.upstream = {},
                     .service_name = text_in(field_in(&cluster, "eds_cluster_config"), "service_name"),
                     .is_static = is_static,
                     .wants_reports = wants_reports_of(cluster),
                     .places = {}};
  if (const Node* const own = field_in(&cluster, "load_assignment")) {
    add_places(own, facts);
    return facts;
  }
  const std::string name = facts.service_name.empty() ? text_in(&cluster, "name") : facts.service_name;
  const ResourcePointer endpoints = in_use.find(ResourceKind::kEndpoints, name);
  if (endpoints != nullptr) add_places(&endpoints->tree, facts);
  return facts;
}

}  // namespace

ClusterTable cluster_table(const Bootstrap& bootstrap, const ResourceStore& in_use, const envoy::UpstreamNames& names) {
  ClusterTable table;
  for (const Node* const each : bootstrap.resources.clusters) {
    table.emplace(text_in(each, "name"), facts_of(*each, in_use, true));
  }
  for (const auto& [name, each] : in_use.of(ResourceKind::kCluster)) {
    table.emplace(name, facts_of(each->tree, in_use, false));
  }
  for (auto& [name, facts] : table) {
    const auto upstream = names.find(name);
    if (upstream != names.end()) facts.upstream = upstream->second;
  }
  return table;
}

bool wants_reports(const Bootstrap& bootstrap, const ResourceStore& in_use) {
  const ResourceStore::Resources& clusters = in_use.of(ResourceKind::kCluster);
  return std::any_of(bootstrap.resources.clusters.begin(), bootstrap.resources.clusters.end(),
                     [](const Node* each) { return wants_reports_of(*each); }) ||
         std::any_of(clusters.begin(), clusters.end(),
                     [](const auto& each) { return wants_reports_of(each.second->tree); });
}

}  // namespace sluice::xds
