// Envoy's envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit (envoy/service/ratelimit/v3/rls.proto), as far as
// the proxy speaks it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/model/access.h"
#include "proxy/config/model/rate_limit.h"
#include "proxy/http/message/fields.h"
#include "proxy/router/request_attributes.h"
#include "sluice/chunk_pool.h"

namespace sluice {

inline constexpr std::string_view kShouldRateLimitPath = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The descriptors of one route on one worker, in the order of the configuration.
class RateDescriptors {
 public:
  /// What only the route has.
  struct Place {
    std::string route;  ///< The value of `route`.
    /// The header field that a claim of the client's token is in.
    std::vector<config::ClaimHeader> claims;
  };

  /// The listener's, then the route's; `route` is null if there is none.
  RateDescriptors(const config::GlobalRateLimits& limits, const std::vector<config::RateDescriptor>* route,
                  const Place& place);

  bool empty() const { return descriptors_.empty(); }
  /// Values of requests are cut to this length, in bytes: a client that sends longer ones counts with those that begin
  /// in the same way.
  static constexpr size_t kMaxValueBytes = 1024;
  /// Writes a RateLimitRequest with the descriptors of a request. Empty if it has none. Valid until the next call.
  std::string_view write_request(const RequestAttributes& facts);

 private:
  enum class Part : uint8_t { kSource, kHost, kSni, kPeer, kHeader, kCookie, kText };
  struct Entry {
    Part part;
    std::string key;
    std::string text;  // The name of the field or cookie, or the value itself.
  };
  using Descriptor = std::vector<Entry>;

  static Entry entry_of(const config::RateEntry& entry, const Place& place);
  static std::string_view value_of(const Entry& entry, const RequestAttributes& facts, std::span<char> room);

  const std::string domain_;
  std::vector<Descriptor> descriptors_;
  std::unique_ptr<char[]> room_;  // Of a request.
  size_t room_bytes_ = 0;
};

/// A RateLimitResponse. The views are parts of the message that it was read from.
struct RateLimitResponse {
  bool over_limit = false;
  bool changes_request = false, changes_response = false;  ///< Whether they get fields.
  std::string_view body;                                   ///< For the client, if it is over a limit; may be empty.
  // The first limit that it is over.
  std::string_view name;  ///< Empty if unknown.
  uint64_t requests = 0;  ///< In each window; 0: unknown.
  uint64_t window_s = 0;  ///< 0: unknown.
  std::optional<uint64_t> reset_s;
};

/// Reads a RateLimitResponse. Nothing if it is malformed, says neither yes nor no, or sets a field that no service may
/// set.
std::optional<RateLimitResponse> read_rate_limit_response(std::string_view message);

// Add the fields for the upstream, and for the client. They return false if there is no room.
[[nodiscard]] bool add_request_fields(ChunkPool& pool, std::string_view message, Fields& to);
[[nodiscard]] bool add_response_fields(ChunkPool& pool, std::string_view message, Fields& to);
/// Adds Retry-After and the fields of draft-ietf-httpapi-ratelimit-headers-10, as far as the response has their
/// values and they are not there yet.
[[nodiscard]] bool add_limit_fields(ChunkPool& pool, const RateLimitResponse& response, std::string_view domain,
                                    Fields& to);

}  // namespace sluice
