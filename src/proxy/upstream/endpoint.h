#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/tls/current_context.h"
#include "proxy/upstream/ejections.h"
#include "proxy/upstream/endpoint_table.h"
#include "proxy/upstream/resolve_counters.h"

namespace sluice {

/// What went wrong with a connection to an endpoint. Names as in the statistics.
enum class ConnectError : uint8_t {
  kRefused,
  kTimeout,
  kUnreachable,
  kReset,
  kLocal,  ///< Ours: no descriptor, no local port, no memory. Does not count against the endpoint.
  kOther,
  kTls,  ///< The connection was made, the TLS handshake failed.
};
inline constexpr int kConnectErrorCount = 7;
const char* connect_error_name(ConnectError error);
/// The kind of an errno from connect.
ConnectError connect_error_of(int error);

/// An upstream's endpoints at run time, shared by the workers.
class UpstreamState {
 public:
  explicit UpstreamState(const config::Upstream& upstream);

  CurrentContext tls;  ///< Where TLS is spoken to the endpoints, or ALTS by certificates.

  const config::Upstream& config() const { return config_; }
  /// Endpoints are numbered by their slots: see EndpointTable for what may be asked of which.
  EndpointTable& slots() { return slots_; }
  const EndpointTable& slots() const { return slots_; }
  size_t size() const { return slots_.size(); }
  EndpointState& endpoint(size_t slot) { return slots_.state(slot); }
  const EndpointState& endpoint(size_t slot) const { return slots_.state(slot); }
  const config::Address& address(size_t slot) const { return slots_.address(slot); }
  /// For messages: its address, and the name that it is of.
  std::string describe(size_t slot) const;

  /// Of a configured endpoint that is a name; written by the resolver.
  ResolveCounters& resolving(size_t configured) { return resolving_[configured]; }
  const ResolveCounters& resolving(size_t configured) const { return resolving_[configured]; }

  // What has become of what an endpoint was asked: Ejections, where there are any.
  void report_answer(size_t index, uint32_t status, uint64_t now_ms) {
    if (ejections_) ejections_->on_answer(index, status, now_ms);
  }
  /// There was no more to it than a connection, and it was made.
  void report_connection(size_t index) {
    if (ejections_) ejections_->on_success(index);
  }
  void report_error(size_t index, uint64_t now_ms) {
    if (ejections_) ejections_->on_error(index, now_ms);
  }
  /// Before each choice.
  void bring_back(uint64_t now_ms) {
    if (ejections_) ejections_->bring_back(now_ms);
  }
  /// Null where `ejection` is not configured.
  const Ejections* ejections() const { return ejections_.get(); }

  /// What the checks of an endpoint have made of it. By one worker.
  void set_healthy(size_t index, bool healthy, uint64_t now_ms);
  /// Another number after each change of EndpointHealth::in(), of any endpoint.
  uint64_t health_generation() const { return health_generation_.load(std::memory_order_relaxed); }
  void note_change() { health_generation_.fetch_add(1, std::memory_order_relaxed); }

  /// A connection was made, or could not be. After `max_fails` failures in a row the endpoint is passed over for
  /// `fail_timeout`; the first connection after that is the probe. Each change is logged.
  void report_success(size_t index, uint64_t now_ms);
  void report_failure(size_t index, uint64_t now_ms, std::string_view why = "failed");

  /// The part of its weight that an endpoint gets, of kFullShare: all of it, unless it has come up a short time ago.
  /// Then it grows from a tenth of it to all within Upstream::slow_start.
  static constexpr uint64_t kFullShare = 1000;
  uint64_t share(size_t index, uint64_t now_ms) const {
    return config_.slow_start.count() == 0 ? kFullShare : growing_share(index, now_ms);
  }

 private:
  void log_change(size_t index, uint64_t now_ms, std::string_view what) const;
  uint64_t growing_share(size_t index, uint64_t now_ms) const;

  const config::Upstream& config_;
  EndpointTable slots_;
  std::vector<ResolveCounters> resolving_;
  std::unique_ptr<Ejections> ejections_;
  std::atomic<uint64_t> health_generation_{0};
};

/// A line about an endpoint for who runs the proxy: `what` goes on behind its name.
void log_endpoint(const UpstreamState& upstream, size_t index, std::string_view what);

}  // namespace sluice
