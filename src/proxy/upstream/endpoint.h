#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proxy/config/config.h"
#include "proxy/tls/current_context.h"

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

/// The state of an endpoint that all workers share. Touched when a connection opens or closes, never per byte.
struct EndpointState {
  std::atomic<uint32_t> active{0};
  std::atomic<uint32_t> fails_in_a_row{0};
  std::atomic<uint64_t> down_until_ms{0};

  bool down(uint64_t now_ms) const { return now_ms < down_until_ms.load(std::memory_order_relaxed); }
};

/// An upstream's endpoints at run time, shared by the workers.
class UpstreamState {
 public:
  explicit UpstreamState(const config::Upstream& upstream)
      : config_(upstream), endpoints_(std::make_unique<EndpointState[]>(upstream.endpoints.size())) {}

  CurrentContext tls;  ///< Where TLS is spoken to the endpoints, or ALTS by certificates.

  const config::Upstream& config() const { return config_; }
  size_t size() const { return config_.endpoints.size(); }
  EndpointState& endpoint(size_t index) { return endpoints_[index]; }
  const EndpointState& endpoint(size_t index) const { return endpoints_[index]; }
  const config::Endpoint& endpoint_config(size_t index) const { return config_.endpoints[index]; }

  /// A connection was made, or could not be. After `max_fails` failures in a row the endpoint is passed over for
  /// `fail_timeout`; the first connection after that is the probe.
  void report_success(size_t index);
  void report_failure(size_t index, uint64_t now_ms);

 private:
  const config::Upstream& config_;
  std::unique_ptr<EndpointState[]> endpoints_;
};

}  // namespace sluice
