#include "proxy/xds/status_documents.h"

#include <atomic>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/json_writer.h"
#include "proxy/envoy/message.h"
#include "proxy/envoy/tree_json.h"

namespace sluice::xds {
namespace {

using config::Node;

// envoy.config.core.v3.Address
void show_address(std::string_view text, JsonWriter& json) {
  json.begin_object();
  if (absl::ConsumePrefix(&text, "unix:")) {
    json.key("pipe").begin_object().member("path", text).end_object().end_object();
    return;
  }
  const size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  uint32_t port = 0;
  if (colon != std::string_view::npos) (void)absl::SimpleAtoi(text.substr(colon + 1), &port);
  json.key("socket_address").begin_object().member("address", host).member("port_value", port);
  json.end_object().end_object();
}

// SimpleMetric: without a value it is 0, and a number of 64 bits is a text.
void show_metric(std::string_view name, uint64_t value, bool is_gauge, JsonWriter& json) {
  json.begin_object();
  if (is_gauge) json.member("type", "GAUGE");
  if (value != 0) json.member("value", absl::StrCat(value));
  json.member("name", name).end_object();
}

// Of a name with several addresses, each has the counters of the name.
void show_metrics(const LoadView& view, size_t upstream, uint32_t slot, JsonWriter& json) {
  const UpstreamState& state = *view.upstreams[upstream];
  uint64_t connect_failures = 0, connections = 0, requests = 0, succeeded = 0, failed = 0;
  for (const auto& worker : view.counters) {
    const EndpointCounters& counters = *worker->upstreams[upstream][state.slots().configured(slot)];
    for (const Counter& each : counters.connect_errors) connect_failures += each.value();
    connections += counters.connected.value();
    requests += counters.requests.value();
    succeeded += counters.requests_succeeded.value();
    failed += counters.requests_failed.value();
  }
  json.key("stats").begin_array();
  show_metric("cx_connect_fail", connect_failures, false, json);
  show_metric("cx_total", connections + connect_failures, false, json);
  show_metric("rq_error", failed, false, json);
  show_metric("rq_success", succeeded, false, json);
  show_metric("rq_total", requests, false, json);
  show_metric("rq_active", state.endpoint(slot).active.load(std::memory_order_relaxed), true, json);
  json.end_array();
}

void show_health(const EndpointState& state, JsonWriter& json) {
  json.key("health_status").begin_object();
  if (!state.health.healthy.load(std::memory_order_relaxed)) json.member("failed_active_health_check", true);
  if (state.health.ejected_until_ms.load(std::memory_order_relaxed) != 0) json.member("failed_outlier_check", true);
  json.member("eds_health_status", state.enabled() ? "HEALTHY" : "DRAINING").end_object();
}

// Members that have no value are left out, as everywhere in protobuf's JSON.
void show_locality(const EndpointLocality& place, JsonWriter& json) {
  json.key("locality").begin_object();
  if (!place.region.empty()) json.member("region", place.region);
  if (!place.zone.empty()) json.member("zone", place.zone);
  if (!place.sub_zone.empty()) json.member("sub_zone", place.sub_zone);
  json.end_object();
}

void show_host(const ClusterFacts& facts, const LoadView& view, size_t upstream, uint32_t slot, JsonWriter& json) {
  const UpstreamState& state = *view.upstreams[upstream];
  const std::string& address = state.slots().text(slot);
  json.begin_object();
  show_address(address, json.key("address"));
  show_metrics(view, upstream, slot, json);
  show_health(state.endpoint(slot), json);
  json.member("weight", state.slots().weight(slot));
  const std::string name = state.slots().name(slot);
  if (name != address) json.member("hostname", name.substr(0, name.rfind(':')));
  if (const uint32_t priority = state.slots().priority(slot); priority != 0) json.member("priority", priority);
  const auto place = facts.places.find(name);
  show_locality(place != facts.places.end() ? place->second : EndpointLocality(), json);
  json.end_object();
}

const Node* field_named(const Node& map, std::string_view name) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    if (envoy::snake_case(map.keys[i].text) == name) return &map.items[i];
  }
  return nullptr;
}

}  // namespace

std::string cluster_statuses(const ClusterTable& table, const LoadView& view) {
  std::unordered_map<std::string_view, size_t> indices;
  for (size_t i = 0; i < view.upstreams.size(); ++i) indices.emplace(view.upstreams[i]->config().name, i);
  JsonWriter json;
  json.begin_object().key("cluster_statuses").begin_array();
  for (const auto& [name, facts] : table) {
    json.begin_object().member("name", name);
    if (!facts.is_static) json.member("added_via_api", true);
    const auto upstream = indices.find(facts.upstream);
    if (upstream != indices.end()) {
      const EndpointView present(view.upstreams[upstream->second]->slots());
      json.key("host_statuses").begin_array();
      for (const uint32_t slot : present.present()) show_host(facts, view, upstream->second, slot, json);
      json.end_array();
    }
    json.member("observability_name", name);
    if (!facts.service_name.empty()) json.member("eds_service_name", facts.service_name);
    json.end_object();
  }
  json.end_array().end_object();
  return std::move(json).text();
}

std::string listener_statuses(const std::vector<const Node*>& listeners) {
  constexpr std::string_view kAddress = "envoy.config.core.v3.Address";
  JsonWriter json;
  envoy::TreeJson messages(json);
  json.begin_object().key("listener_statuses").begin_array();
  for (const Node* const listener : listeners) {
    json.begin_object();
    if (const Node* const name = field_named(*listener, "name")) json.member("name", name->text);
    if (const Node* const address = field_named(*listener, "address")) {
      json.key("local_address");
      messages.write(kAddress, *address);
    }
    const Node* const more = field_named(*listener, "additional_addresses");
    if (more != nullptr && !more->items.empty()) {
      json.key("additional_local_addresses").begin_array();
      for (const Node& each : more->items) {
        if (const Node* const address = field_named(each, "address")) messages.write(kAddress, *address);
      }
      json.end_array();
    }
    json.end_object();
  }
  json.end_array().end_object();
  return std::move(json).text();
}

}  // namespace sluice::xds
