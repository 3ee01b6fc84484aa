// How an upstream's endpoint is chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "proxy/config/model/field_name.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

/// The policy. All of them honour weights.
enum class Balance : uint8_t { kRoundRobin, kLeastConnections, kLeastRequest, kRandom, kMaglev, kRingHash };

/// What kMaglev and kRingHash hash: at most one of these. What a request does not have, or a connection of `tcp`, is
/// the client's address instead.
struct HashKey {
  FieldName header;
  std::string cookie;
  std::string query;    ///< A parameter's name.
  bool path = false;    ///< Without the query.
  bool source = false;  ///< The client's address.

  bool operator==(const HashKey&) const = default;
};

/// A cookie that leads a client back to the endpoint that it was given first.
struct Sticky {
  static constexpr size_t kMaxCookieBytes = 64;
  static constexpr size_t kMaxPathBytes = 256;

  std::string cookie = "sluice";
  Duration ttl{0};  ///< Max-Age. 0: until the browser ends.
  std::string path = "/";
  /// The key of the hash that endpoints' addresses are hidden by. Empty: the upstream's name, which hides them from
  /// whoever does not try all addresses. Processes that share clients need the same.
  std::string secret;

  bool operator==(const Sticky&) const = default;
};

}  // namespace sluice::config
