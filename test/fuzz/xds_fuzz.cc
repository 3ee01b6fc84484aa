// Any bytes as the messages of a control plane: each is accepted, rejected with a reason, or ends the stream; what is
// accepted is mapped to a configuration, or not, without harm, and expires. The same bytes as a message of the service
// of load reports, and of the health discovery service.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/common/proto_reader.h"
#include "proxy/config/load/loader.h"
#include "proxy/envoy/mapping.h"
#include "proxy/log/run_log.h"
#include "proxy/xds/check_settings.h"
#include "proxy/xds/check_target.h"
#include "proxy/xds/health_messages.h"
#include "proxy/xds/load_stats.h"
#include "proxy/xds/subscription.h"

namespace {

using sluice::xds::KindInfo;
using sluice::xds::ResourceStore;

absl::Status map(const ResourceStore& store, sluice::xds::ResourceKeys& blamed) {
  sluice::envoy::ResourceSet set;
  set.may_follow = true;
  for (const KindInfo& info : sluice::xds::kKinds) {
    for (const auto& [name, resource] : store.of(info.kind)) set.add(info.type, resource->tree);
  }
  sluice::envoy::Findings findings;
  for (const auto& finding : findings.list()) blamed.emplace(sluice::xds::ResourceKind::kCluster, finding.name);
  const auto config = sluice::config::load_tree(sluice::envoy::map_to_tree(set, findings), "fuzz");
  return config.ok() || config.status().message().empty() ? absl::OkStatus() : config.status();
}

// What is read is within the message and becomes checks, or there is a reason; and its report is well-formed.
void check_health(std::string_view message) {
  const auto specifier = sluice::xds::read_health_specifier(message);
  if (!specifier) return;
  static const sluice::envoy::ResourceSet none;
  sluice::xds::CheckSettingsMaker maker(none, "/dev/null/none");
  std::vector<sluice::xds::ClusterHealth> report;
  for (sluice::xds::HealthSpecifier::Cluster cluster : specifier->clusters) {
    cluster.socket_matches.clear();  // They name files.
    for (const auto& each : maker.make_all(cluster, {})) {
      if (each->problem.empty() && !each->upstream.health_check) std::abort();
    }
    report.push_back({.name = cluster.name, .localities = {}});
    for (const auto& locality : cluster.localities) {
      auto& to = report.back().localities.emplace_back();
      to.place = locality.place;
      for (const auto& each : locality.endpoints) {
        const auto target = sluice::xds::read_check_target(each.bytes);
        if (target.ok() ? !target->address.is_set() : target.status().message().empty()) std::abort();
        to.endpoints.push_back({.address = each.address, .status = sluice::xds::HealthStatus::kHealthy});
      }
    }
  }
  const std::string written = sluice::xds::write_health_report(report);
  sluice::ProtoReader in(written);
  while (in.next()) {
  }
  if (!in.ok()) std::abort();
}

}  // namespace

// The first byte says whether it is a delta stream; then messages, each behind its size in two bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  (void)sluice::xds::read_load_response({reinterpret_cast<const char*>(data), size});
  check_health({reinterpret_cast<const char*>(data), size});
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const bool is_delta = rest[0] & 1;
  rest.remove_prefix(1);
  sluice::XdsCounters counters;
  sluice::xds::Subscription subscription({}, is_delta, {}, 0, map, counters);
  uint64_t now_ms = 0;
  size_t sent = 0;
  subscription.begin([&](const std::string& message) { sent += !message.empty(); });
  while (rest.size() >= 2) {
    const size_t length =
        std::min<size_t>(size_t{static_cast<uint8_t>(rest[0])} << 8 | static_cast<uint8_t>(rest[1]), rest.size() - 2);
    const size_t before = sent;
    if (!subscription.on_message(rest.substr(2, length), now_ms += 500).ok()) return 0;
    if (sent == before) std::abort();  // Neither an acceptance nor a rejection was sent.
    rest.remove_prefix(2 + length);
    if (subscription.due_ms().value_or(UINT64_MAX) <= now_ms) subscription.expire(now_ms);
  }
  return 0;
}
