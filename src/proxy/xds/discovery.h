// The messages of Envoy's envoy.service.discovery.v3.AggregatedDiscoveryService (envoy/service/discovery/v3/
// discovery.proto), as far as a client needs them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/load/yaml.h"

namespace sluice::xds {

/// The service's methods.
inline constexpr std::string_view kStatePath =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
    "StreamAggregatedResources";
inline constexpr std::string_view kDeltaPath =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
    "DeltaAggregatedResources";

/// The client: envoy.config.core.v3.Node.
struct NodeIdentity {
  std::string id, cluster, region, zone, sub_zone;
  config::Node metadata;  ///< A Struct; null if there is none.
};
/// The message, to be part of requests. `features`: what the client can do beyond the basics of a protocol.
std::string write_node(const NodeIdentity& node, const std::vector<std::string_view>& features = {});

/// DiscoveryRequest: the state of the world.
struct StateRequest {
  std::string_view node = {};  ///< Only in the first request of a stream.
  std::string_view type;       ///< Without a host.
  std::string_view version = {};
  std::string_view nonce = {};
  std::string_view error = {};  ///< Why the response of this nonce is rejected; empty: it is not.
  std::vector<std::string_view> names = {};
};
std::string write_request(const StateRequest& request);

/// DeltaDiscoveryRequest.
struct DeltaRequest {
  std::string_view node = {};
  std::string_view type;
  std::string_view nonce = {};
  std::string_view error = {};
  std::vector<std::string_view> subscribe = {}, unsubscribe = {};
  std::map<std::string_view, std::string_view> known = {};  ///< Versions by name, in the first request of a stream.
};
std::string write_request(const DeltaRequest& request);

/// One resource of a response. The views are parts of the message.
struct SentResource {
  std::string_view name;     ///< Empty: only the resource itself has it.
  std::string_view version;  ///< Empty: that of the response.
  std::string_view type;
  std::string_view bytes;
  bool is_present = true;  ///< False: a sign of life for one that was sent before.
  /// How long it lives without a sign of life; nothing: until it changes.
  std::optional<uint64_t> ttl_ms = std::nullopt;
  bool has_bad_ttl = false;  ///< It has a time to live that is none.
};

/// DiscoveryResponse or DeltaDiscoveryResponse. The views are parts of the message.
struct Response {
  std::string_view version, type, nonce;
  std::vector<SentResource> resources;
  std::vector<std::string_view> removed;
};
/// Nothing if the message is malformed.
std::optional<Response> read_response(std::string_view message, bool is_delta);

}  // namespace sluice::xds
