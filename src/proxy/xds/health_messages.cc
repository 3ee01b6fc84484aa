#include "proxy/xds/health_messages.h"

#include <utility>

#include "proxy/common/proto_reader.h"
#include "proxy/xds/proto_duration.h"
#include "proxy/xds/write_message.h"

namespace sluice::xds {
namespace {

// Capability.Protocol: HTTP, TCP. It has no value for gRPC.
constexpr std::string_view kProtocols("\x00\x01", 2);

// Endpoint { address = 1 }
bool read_endpoint(std::string_view bytes, HealthSpecifier::Endpoint& endpoint) {
  endpoint.bytes = bytes;
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) endpoint.address = in.bytes();
  }
  return in.ok();
}

// LocalityEndpoints { locality = 1, endpoints = 2 }
bool read_locality(std::string_view bytes, size_t& left, HealthSpecifier::Locality& locality) {
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) locality.place = in.bytes();
    if (!in.is(2, ProtoWire::kBytes)) continue;
    if (left == 0 || !read_endpoint(in.bytes(), locality.endpoints.emplace_back())) return false;
    --left;
  }
  return in.ok();
}

// ClusterHealthCheck { cluster_name = 1, health_checks = 2, locality_endpoints = 3, transport_socket_matches = 4 }
bool read_cluster(std::string_view bytes, size_t& left, HealthSpecifier::Cluster& cluster) {
  cluster.bytes = bytes;
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.wire() != ProtoWire::kBytes) continue;
    if (in.field() == 1) cluster.name = in.bytes();
    if (in.field() == 2) cluster.checks.push_back(in.bytes());
    if (in.field() == 3 && !read_locality(in.bytes(), left, cluster.localities.emplace_back())) return false;
    if (in.field() == 4) cluster.socket_matches.push_back(in.bytes());
  }
  return in.ok();
}

// EndpointHealth { endpoint = 1, health_status = 2 }, Endpoint { address = 1 }
void write_endpoint_health(ProtoWriter& out, uint32_t field, const ClusterHealth::Endpoint& health) {
  const size_t entry = out.begin(field);
  const size_t endpoint = out.begin(1);
  out.text(1, health.address);
  out.end(endpoint);
  if (health.status != HealthStatus::kUnknown) out.number(2, static_cast<uint64_t>(health.status));
  out.end(entry);
}

// ClusterEndpointsHealth { cluster_name = 1, locality_endpoints_health = 2 },
// LocalityEndpointsHealth { locality = 1, endpoints_health = 2 }
void write_cluster_health(ProtoWriter& out, const ClusterHealth& health) {
  const size_t cluster = out.begin(2);
  out.utf8(1, health.name);
  for (const ClusterHealth::Locality& each : health.localities) {
    const size_t locality = out.begin(2);
    out.text(1, each.place);
    for (const ClusterHealth::Endpoint& endpoint : each.endpoints) write_endpoint_health(out, 2, endpoint);
    out.end(locality);
  }
  out.end(cluster);
}

}  // namespace

// HealthCheckSpecifier { cluster_health_checks = 1, interval = 2 }
std::optional<HealthSpecifier> read_health_specifier(std::string_view message) {
  HealthSpecifier specifier;
  size_t left = HealthSpecifier::kMaxEndpoints;
  ProtoReader in(message);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) {
      if (specifier.clusters.size() == HealthSpecifier::kMaxClusters) return std::nullopt;
      if (!read_cluster(in.bytes(), left, specifier.clusters.emplace_back())) return std::nullopt;
    }
    if (!in.is(2, ProtoWire::kBytes)) continue;
    const std::optional<uint64_t> interval = read_duration_ms(in.bytes());
    if (!interval) return std::nullopt;
    specifier.interval_ms = *interval == 0 ? HealthSpecifier::kDefaultIntervalMs : *interval;
  }
  return in.ok() ? std::optional(std::move(specifier)) : std::nullopt;
}

// HealthCheckRequestOrEndpointHealthResponse { health_check_request = 1, endpoint_health_response = 2 },
// HealthCheckRequest { node = 1, capability = 2 }, Capability { health_check_protocols = 1 }
std::string write_health_request(std::string_view node) {
  return write_message([&](ProtoWriter& out) {
    const size_t request = out.begin(1);
    out.text(1, node);
    const size_t capability = out.begin(2);
    out.text(1, kProtocols);
    out.end(capability);
    out.end(request);
  });
}

// EndpointHealthResponse { endpoints_health = 1, cluster_endpoints_health = 2 }
std::string write_health_report(const std::vector<ClusterHealth>& clusters) {
  return write_message([&](ProtoWriter& out) {
    const size_t response = out.begin(2);
    for (const ClusterHealth& cluster : clusters) {
      for (const ClusterHealth::Locality& locality : cluster.localities) {
        for (const ClusterHealth::Endpoint& endpoint : locality.endpoints) write_endpoint_health(out, 1, endpoint);
      }
    }
    for (const ClusterHealth& cluster : clusters) write_cluster_health(out, cluster);
    out.end(response);
  });
}

}  // namespace sluice::xds
