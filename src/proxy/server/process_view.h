// What the admin listener and the printed counters show of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

/// SHA-256 of a configuration as `sluice check --print` prints it, in hexadecimal digits. Made on the first use:
/// that takes as long as the configuration is large, and a control plane changes it often.
class ConfigHash {
 public:
  explicit ConfigHash(config::Snapshot<config::Config> config) : config_(std::move(config)) {}

  /// Callable on any thread.
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  mutable std::optional<config::Snapshot<config::Config>> config_;  // Until text_ is made.
  mutable std::string text_;
};

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
    uint64_t number = 0;                     ///< From 1 on.
    int64_t applied_s = 0;                   ///< In seconds since 1970.
    std::shared_ptr<const ConfigHash> hash;  ///< Null: of no generation.
    bool draining = false;                   ///< Its connections are being drained because of `reload.max_generations`.
  };
  Applied current;
  std::vector<Applied> earlier;  ///< The oldest first.
  std::string_view phase;        ///< `serving`, or what the end of the process has come to.
};

/// Formats all counters of the process, one per line in the Prometheus text format.
std::string format_counters(const ProcessView& view, const ControlCounters& control);

}  // namespace sluice
