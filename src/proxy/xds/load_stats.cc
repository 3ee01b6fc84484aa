#include "proxy/xds/load_stats.h"

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "proxy/common/proto_reader.h"
#include "proxy/xds/proto_duration.h"
#include "proxy/xds/write_message.h"

namespace sluice::xds {
namespace {

void write_count(ProtoWriter& out, uint32_t field, uint64_t count) {
  if (count != 0) out.number(field, count);
}

void write_name(ProtoWriter& out, uint32_t field, std::string_view name) {
  if (!name.empty()) out.utf8(field, name);
}

// Address { socket_address = 1, pipe = 2 }, SocketAddress { address = 2, port_value = 3 }, Pipe { path = 1 }
void write_address(ProtoWriter& out, uint32_t field, std::string_view text) {
  const size_t address = out.begin(field);
  if (absl::ConsumePrefix(&text, "unix:")) {
    const size_t pipe = out.begin(2);
    out.utf8(1, text);
    out.end(pipe);
  } else {
    const size_t colon = text.rfind(':');
    std::string_view host = text.substr(0, colon);
    uint32_t port = 0;
    if (colon != std::string_view::npos) (void)absl::SimpleAtoi(text.substr(colon + 1), &port);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    const size_t socket = out.begin(1);
    out.utf8(2, host);
    write_count(out, 3, port);
    out.end(socket);
  }
  out.end(address);
}

// UpstreamEndpointStats { address = 1, total_successful_requests = 2, total_requests_in_progress = 3,
// total_error_requests = 4, total_issued_requests = 7 }
void write_endpoint(ProtoWriter& out, const EndpointLoad& load) {
  const size_t endpoint = out.begin(7);
  write_address(out, 1, load.address);
  write_count(out, 2, load.counts.succeeded);
  write_count(out, 3, load.counts.in_progress);
  write_count(out, 4, load.counts.failed);
  write_count(out, 7, load.counts.issued);
  out.end(endpoint);
}

// UpstreamLocalityStats { locality = 1, total_successful_requests = 2, total_requests_in_progress = 3,
// total_error_requests = 4, priority = 6, upstream_endpoint_stats = 7, total_issued_requests = 8 },
// Locality { region = 1, zone = 2, sub_zone = 3 }
void write_locality(ProtoWriter& out, const LocalityLoad& load) {
  const size_t stats = out.begin(2);
  const size_t locality = out.begin(1);
  write_name(out, 1, load.place.region);
  write_name(out, 2, load.place.zone);
  write_name(out, 3, load.place.sub_zone);
  out.end(locality);
  write_count(out, 2, load.counts.succeeded);
  write_count(out, 3, load.counts.in_progress);
  write_count(out, 4, load.counts.failed);
  write_count(out, 6, load.place.priority);
  for (const EndpointLoad& each : load.endpoints) write_endpoint(out, each);
  write_count(out, 8, load.counts.issued);
  out.end(stats);
}

// ClusterStats { cluster_name = 1, upstream_locality_stats = 2, total_dropped_requests = 3, load_report_interval = 4,
// cluster_service_name = 6 }
void write_cluster(ProtoWriter& out, const ClusterLoad& load) {
  const size_t cluster = out.begin(2);
  out.utf8(1, load.name);
  for (const LocalityLoad& each : load.localities) write_locality(out, each);
  write_count(out, 3, load.dropped);
  write_duration_ms(out, 4, load.interval_ms);
  write_name(out, 6, load.service_name);
  out.end(cluster);
}

}  // namespace

// LoadStatsRequest { node = 1, cluster_stats = 2 }
std::string write_load_request(std::string_view node, const std::vector<ClusterLoad>& clusters) {
  return write_message([&](ProtoWriter& out) {
    if (!node.empty()) out.text(1, node);
    for (const ClusterLoad& each : clusters) write_cluster(out, each);
  });
}

// LoadStatsResponse { clusters = 1, load_reporting_interval = 2, report_endpoint_granularity = 3,
// send_all_clusters = 4 }
std::optional<LoadWish> read_load_response(std::string_view message) {
  LoadWish wish;
  ProtoReader in(message);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) wish.clusters.emplace(in.bytes());
    if (in.is(3, ProtoWire::kVarint)) wish.by_endpoint = in.number() != 0;
    if (in.is(4, ProtoWire::kVarint)) wish.all_clusters = in.number() != 0;
    if (!in.is(2, ProtoWire::kBytes)) continue;
    const std::optional<uint64_t> interval = read_duration_ms(in.bytes());
    if (!interval) return std::nullopt;
    wish.interval_ms = *interval;
  }
  return in.ok() ? std::optional(std::move(wish)) : std::nullopt;
}

}  // namespace sluice::xds
