// Limits on the rate of requests, of new connections and of bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/field_name.h"
#include "proxy/config/model/on_failure.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

/// Events in a span of time: `100/s`, `20/m` or `1000/h`; or bytes: `2MiB/s`.
class Rate {
 public:
  static constexpr uint32_t kMaxEvents = 1'000'000;
  static constexpr uint64_t kMinBytesPerSecond = 1000, kMaxBytesPerSecond = 10 * kGiB;

  /// Not set: no event at all.
  Rate() = default;
  static absl::StatusOr<Rate> parse(std::string_view text);

  /// In each period(): events, or bytes if is_bytes().
  uint64_t events() const { return events_; }
  bool is_bytes() const { return bytes_; }
  Duration period() const { return period_; }
  /// Rounded down.
  uint64_t per_second() const { return events_ * 1000 / milliseconds(period_); }
  /// In the form that parse() reads; empty if it is not set.
  std::string text() const;

  bool operator==(const Rate&) const = default;

 private:
  uint64_t events_ = 0;
  Duration period_{1000};
  bool bytes_ = false;
};

/// How many events or bytes a key may have at once: `auto` (as many as its rate names), `200` or `8MiB`.
class Burst {
 public:
  static constexpr uint32_t kMaxEvents = 1'000'000;
  static constexpr uint64_t kMaxBytes = 64 * kGiB;

  Burst() = default;
  Burst(uint64_t amount) : amount_(amount) {}  // NOLINT(google-explicit-constructor): a number is a burst.
  static absl::StatusOr<Burst> parse(std::string_view text);

  bool is_auto() const { return amount_ == 0; }
  uint64_t amount() const { return amount_; }
  /// Whether it was written as a size, with a unit.
  bool is_size() const { return size_; }
  /// In the form that parse() reads.
  std::string text() const;

  bool operator==(const Burst&) const = default;

 private:
  uint64_t amount_ = 0;
  bool size_ = false;
};

/// What requests have in common that count together: all members that are set. A request that lacks one of them counts
/// together with those of the same source that lack it too.
struct RateKey {
  bool source = false;    ///< The client's IPv4 address or IPv6 /64.
  bool route = false;     ///< With the listener.
  bool host = false;      ///< As routes compare it.
  bool sni = false;       ///< The name that a TLS client sent.
  bool peer = false;      ///< The authenticated identity of the client: the first of its names.
  FieldName header;       ///< The value of the first field of this name.
  std::string cookie;     ///< The value of the first cookie of this name.
  std::string jwt_claim;  ///< The claim of the client's token; see JwtAuth::claims.

  bool operator==(const RateKey&) const = default;
};

/// An entry of a descriptor: one member of RateKey, or `value`.
struct RateEntry : RateKey {
  std::string value;  ///< The same for all requests.
  std::string key;    ///< Its key for the service; empty: see docs/guides/rate-limits.md.

  bool operator==(const RateEntry&) const = default;
};

/// What the service of global rate limits counts together: requests with the same values of all entries. A request that
/// lacks one of them has no such descriptor.
struct RateDescriptor {
  std::vector<RateEntry> entries;

  bool operator==(const RateDescriptor&) const = default;
};

/// Limits that a service counts for all proxies: Envoy's envoy.service.ratelimit.v3.RateLimitService.
struct GlobalRateLimits {
  std::string to;      ///< Name of the upstream: the service.
  std::string domain;  ///< Which of the service's limits apply.
  Duration timeout = std::chrono::milliseconds(20);
  OnFailure on_failure = OnFailure::kAllow;
  std::vector<RateDescriptor> descriptors;  ///< Of all requests, before those of their route.

  bool operator==(const GlobalRateLimits&) const = default;
};

/// How many limits of bytes one direction of a request can have.
inline constexpr size_t kMaxBandwidthLimits = 8;

/// A limit by GCRA (ITU-T I.371), which listeners and routes name. What it counts is shared by all that name it.
struct RateLimit {
  std::string name;            ///< Unique among rate limits.
  std::optional<RateKey> key;  ///< Absent: the source.
  Rate rate;
  Burst burst;
  Duration delay{};  ///< How long a request may wait until it conforms, instead of being refused.
  /// Keys that are remembered, 8 bytes each. 65536: the sources that a busy edge sees within the few seconds in which a
  /// usual limit recovers.
  uint32_t entries = 65536;
  uint32_t status = 429;  ///< 400 to 599.
  bool dry_run = false;   ///< Only counts what it would refuse or delay.

  RateKey effective_key() const { return key.value_or(RateKey{.source = true}); }
  uint64_t effective_burst() const { return burst.is_auto() ? rate.events() : burst.amount(); }
  /// Whether both count the same: then a reload keeps what is counted.
  bool counts_as(const RateLimit& other) const {
    return effective_key() == other.effective_key() && rate == other.rate &&
           effective_burst() == other.effective_burst() && delay == other.delay && entries == other.entries;
  }

  bool operator==(const RateLimit&) const = default;
};

}  // namespace sluice::config
