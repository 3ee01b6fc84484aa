#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/tls/current_context.h"
#include "proxy/upstream/ejections.h"
#include "proxy/upstream/endpoint_changes.h"
#include "proxy/upstream/endpoint_table.h"
#include "proxy/upstream/resolve_counters.h"

namespace sluice {

/// Why a connection to an endpoint failed. The names are those in the statistics.
enum class ConnectError : uint8_t {
  kRefused,
  kTimeout,
  kUnreachable,
  kReset,
  kLocal,  ///< A local cause: no descriptor, port, or memory. Does not count against the endpoint.
  kOther,
  kTls,  ///< The connection was made, but the TLS handshake failed.
};
inline constexpr int kConnectErrorCount = 7;
const char* connect_error_name(ConnectError error);
/// Classifies an errno of connect().
ConnectError connect_error_of(int error);

/// The run-time state of an upstream's endpoints, shared by the workers.
class UpstreamState {
 public:
  /// `added_slots`: see EndpointTable::added_slots().
  explicit UpstreamState(config::Snapshot<config::Upstream> upstream, size_t added_slots = 0);

  /// Takes over what is known about the endpoints that `old` has too: their health, and the addresses of names. Must be
  /// called before anything else uses this state.
  void continue_from(const UpstreamState& old);

  CurrentContext tls;  ///< For endpoints that use TLS, or ALTS by certificates.

  const config::Upstream& config() const { return *config_; }
  /// Endpoints are identified by their slots. EndpointTable describes which accessors are valid for which slots.
  EndpointTable& slots() { return slots_; }
  const EndpointTable& slots() const { return slots_; }
  size_t size() const { return slots_.size(); }
  EndpointState& endpoint(size_t slot) { return slots_.state(slot); }
  const EndpointState& endpoint(size_t slot) const { return slots_.state(slot); }
  const config::Address& address(size_t slot) const { return slots_.address(slot); }
  std::string describe(size_t slot) const { return slots_.describe(slot); }

  /// What operators have changed.
  EndpointChanges& changes() { return changes_; }
  const EndpointChanges& changes() const { return changes_; }

  /// The counters of a configured endpoint that is a name; written by the resolver.
  ResolveCounters& resolving(size_t configured) { return resolving_[configured]; }
  const ResolveCounters& resolving(size_t configured) const { return resolving_[configured]; }

  // Report the outcome of a request to Ejections, if configured.
  void report_response(size_t index, uint32_t status, uint64_t now_ms) {
    if (ejections_) ejections_->on_response(index, status, now_ms);
  }
  /// For protocols without responses: a connection was made.
  void report_connection(size_t index) {
    if (ejections_) ejections_->on_success(index);
  }
  /// `why`: in a few words, for the log.
  void report_error(size_t index, uint64_t now_ms, std::string_view why = {}) {
    if (ejections_) ejections_->on_error(index, now_ms, why);
  }
  /// Ends expired ejections. Called before each choice.
  void end_expired_ejections(uint64_t now_ms) {
    if (ejections_) ejections_->end_expired_ejections(now_ms);
  }
  /// Null if `ejection` is not configured.
  const Ejections* ejections() const { return ejections_.get(); }

  /// Sets the state that an endpoint's health checks found, and logs a change. Called by one worker. `why`: what was
  /// wrong.
  void set_healthy(size_t index, bool healthy, uint64_t now_ms, std::string_view why = {});
  /// For adaptive_concurrency: when all workers are to measure the latency without load, at the latest. See
  /// ConcurrencyControl.
  std::atomic<uint64_t>& probe_wish() { return probe_wish_; }
  uint64_t health_generation() const { return slots_.health_generation(); }

  /// Report that a connection was made or failed. After `max_fails` failures in a row the endpoint is passed over for
  /// `fail_timeout`; the first connection after that is the probe. Each change is logged once, whichever worker finds
  /// it: the first failure, the passing over, and the next success. `detail`: the reason, where there is more to say
  /// than the kind of error.
  void report_success(size_t index, uint64_t now_ms);
  void report_failure(size_t index, uint64_t now_ms, ConnectError error = ConnectError::kOther,
                      std::string_view detail = {});

  /// The share of its weight that an endpoint gets, in units of 1 / kFullShare. It is kFullShare, except during slow
  /// start: within Upstream::slow_start after the endpoint came up it grows from a tenth to the full share.
  static constexpr uint64_t kFullShare = 1000;
  uint64_t share(size_t index, uint64_t now_ms) const {
    return config_->slow_start.count() == 0 ? kFullShare : growing_share(index, now_ms);
  }

 private:
  void log_failing(size_t index, uint64_t now_ms, uint32_t fails, std::string_view why);
  uint64_t growing_share(size_t index, uint64_t now_ms) const;

  const config::Snapshot<config::Upstream> config_;
  EndpointTable slots_;
  EndpointChanges changes_{slots_};
  std::vector<ResolveCounters> resolving_;
  std::unique_ptr<Ejections> ejections_;
  std::atomic<uint64_t> probe_wish_{0};
};

}  // namespace sluice
