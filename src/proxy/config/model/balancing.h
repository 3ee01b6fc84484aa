// How an upstream's endpoint is chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "proxy/config/model/field_name.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

/// The load-balancing policy. All policies honor weights.
enum class Balance : uint8_t { kRoundRobin, kLeastConnections, kLeastRequest, kRandom, kMaglev, kRingHash };

/// The hash key for kMaglev and kRingHash: at most one member is set. The client's address is used for a request that
/// lacks the key, and for `tcp` connections.
struct HashKey {
  FieldName header;
  std::string cookie;
  std::string query;    ///< A parameter's name.
  bool path = false;    ///< Without the query.
  bool source = false;  ///< The client's address.

  bool operator==(const HashKey&) const = default;
};

/// A cookie that keeps a client on its first endpoint.
struct Sticky {
  static constexpr size_t kMaxCookieBytes = 64;
  static constexpr size_t kMaxPathBytes = 256;

  std::string cookie = "sluice";
  Duration ttl{0};  ///< Max-Age. 0: a session cookie.
  std::string path = "/";
  /// Key of the hash that hides the endpoint's address in the cookie. Empty: the upstream's name, which does not resist
  /// a client that tries all addresses. Processes that share clients need the same secret.
  std::string secret;

  bool operator==(const Sticky&) const = default;
};

}  // namespace sluice::config
