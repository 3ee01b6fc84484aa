// Any bytes as the messages of a control plane: each is accepted, rejected with a reason, or ends the stream; what is
// accepted is mapped to a configuration, or not, without harm, and expires. The same bytes as a message of the service
// of load reports.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxy/config/load/loader.h"
#include "proxy/envoy/mapping.h"
#include "proxy/log/run_log.h"
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

}  // namespace

// The first byte says whether it is a delta stream; then messages, each behind its size in two bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  (void)sluice::xds::read_load_response({reinterpret_cast<const char*>(data), size});
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
