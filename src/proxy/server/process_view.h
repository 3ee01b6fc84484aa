// What the admin listener and the printed counters show of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/access_log/access_log.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

struct BodyFile;
class OverloadState;
struct XdsCounters;
namespace xds {
class ConfigDump;
}  // namespace xds

/// The current generation at one moment. Immutable, so any thread may read it; what it refers to may be read on any
/// thread, too.
struct ProcessView {
  config::Snapshot<config::Config> config;
  std::vector<std::shared_ptr<UpstreamState>> upstreams;
  std::vector<std::shared_ptr<WorkerCounters>> counters;      ///< By worker.
  std::vector<std::optional<size_t>> access_log_of_listener;  ///< Index into `access_logs`.
  const AccessLogs* access_logs = nullptr;
  const BodyFile* body_file = nullptr;        ///< Null if there is none.
  const OverloadState* overload = nullptr;    ///< Null if there is none.
  const XdsCounters* xds = nullptr;           ///< Null without a control plane.
  const xds::ConfigDump* xds_dump = nullptr;  ///< The same.

  /// A generation that connections still use.
  struct Applied {
    uint64_t number = 0;    ///< From 1 on.
    int64_t applied_s = 0;  ///< In seconds since 1970.
    std::string hash;       ///< SHA-256 of the configuration, in hexadecimal digits.
    bool draining = false;  ///< Its connections are being drained because of `reload.max_generations`.
  };
  Applied current;
  std::vector<Applied> earlier;  ///< The oldest first.
  std::string_view phase;        ///< `serving`, or what the end of the process has come to.
};

/// Formats all counters of the process, one per line in the Prometheus text format.
std::string format_counters(const ProcessView& view, const ControlCounters& control);

/// SHA-256 of `config` as `sluice check --print` prints it, in hexadecimal digits.
std::string hash_of(const config::Config& config);

}  // namespace sluice
