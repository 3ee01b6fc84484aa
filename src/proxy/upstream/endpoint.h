#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proxy/config/config.h"
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
  std::atomic<uint64_t> up_since_ms{0};  ///< Set when it comes up, or appears; 0: it has been there from the start.

  bool down(uint64_t now_ms) const { return now_ms < down_until_ms.load(std::memory_order_relaxed); }
  /// Whether it may be chosen while there are others: all that speaks against an endpoint is asked here.
  bool up(uint64_t now_ms) const { return present.load(std::memory_order_relaxed) && !down(now_ms); }
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
};

}  // namespace sluice
