#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/config.h"
#include "proxy/health/ejections.h"
#include "proxy/health/endpoint_health.h"
#include "proxy/tls/current_context.h"

namespace sluice {

class EndpointSet;

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

/// The state of an endpoint that all workers share. Touched when a connection opens or closes, never per byte.
struct EndpointState {
  std::atomic<bool> present{true};  ///< Whether there is one here at all; UpstreamState::renew_set() follows a change.
  std::atomic<uint32_t> active{0};
  std::atomic<uint32_t> fails_in_a_row{0};
  std::atomic<uint64_t> down_until_ms{0};
  std::atomic<uint64_t> up_since_ms{0};  ///< Set when its health has come back; 0: it has been there from the start.
  EndpointHealth health;

  /// Whether it may be chosen while there are others: all that speaks against an endpoint is asked here.
  bool up(uint64_t now_ms) const { return present.load(std::memory_order_relaxed) && health.in() && !down(now_ms); }
  /// Whether connections to it have failed of late.
  bool down(uint64_t now_ms) const { return now_ms < down_until_ms.load(std::memory_order_relaxed); }
};

/// An upstream's endpoints at run time, shared by the workers.
class UpstreamState {
 public:
  explicit UpstreamState(const config::Upstream& upstream);

  CurrentContext tls;  ///< Where TLS is spoken to the endpoints, or ALTS by certificates.

  const config::Upstream& config() const { return config_; }
  size_t size() const { return config_.endpoints.size(); }
  EndpointState& endpoint(size_t index) { return endpoints_[index]; }
  const EndpointState& endpoint(size_t index) const { return endpoints_[index]; }
  const config::Endpoint& endpoint_config(size_t index) const { return config_.endpoints[index]; }

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
  /// The endpoint is another one from now on, of which nothing is known.
  void forget_health(size_t index);
  /// Another number after each change of EndpointHealth::in(), of any endpoint.
  uint64_t health_generation() const { return health_generation_.load(std::memory_order_relaxed); }
  void note_change() { health_generation_.fetch_add(1, std::memory_order_relaxed); }

  /// A connection was made, or could not be. After `max_fails` failures in a row the endpoint is passed over for
  /// `fail_timeout`; the first connection after that is the probe.
  void report_success(size_t index, uint64_t now_ms);
  void report_failure(size_t index, uint64_t now_ms);

  /// The part of its weight that an endpoint gets, of kFullShare: all of it, unless it has come up a short time ago.
  /// Then it grows from a tenth of it to all within Upstream::slow_start.
  static constexpr uint64_t kFullShare = 1000;
  uint64_t share(size_t index, uint64_t now_ms) const {
    return config_.slow_start.count() == 0 ? kFullShare : growing_share(index, now_ms);
  }

  /// Which endpoints there are, as balancers look them up; they take it again when the generation has changed.
  std::shared_ptr<const EndpointSet> endpoint_set() const;
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  /// Makes the set anew, after endpoints have come or gone. Not on a worker: tables of many endpoints take milliseconds
  /// (docs/balancing.md). From one thread at a time.
  void renew_set();

 private:
  uint64_t growing_share(size_t index, uint64_t now_ms) const;

  const config::Upstream& config_;
  std::unique_ptr<EndpointState[]> endpoints_;
  mutable std::mutex set_mutex_;
  std::shared_ptr<const EndpointSet> set_;
  std::atomic<uint64_t> generation_{0};
  std::unique_ptr<Ejections> ejections_;
  std::atomic<uint64_t> health_generation_{0};
};

/// A line about an endpoint for who runs the proxy: `what` goes on behind its name.
void log_endpoint(const UpstreamState& upstream, size_t index, std::string_view what);

}  // namespace sluice
