#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "proxy/common/connection_limits.h"
#include "proxy/config/model/rate_limit.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// The secret of a process by which keys are hashed (SipHash-2-4), so that no client can choose a key that collides
/// with another client's.
struct RateSecret {
  uint64_t words[2];

  /// Random, and the same from then on.
  static const RateSecret& of_process();
};

/// A route as a part of a key. Routes are equal if their listeners and their names are, or their places if they have no
/// name.
uint64_t rate_key_of_route(const RateSecret& secret, std::string_view listener, std::string_view route, uint32_t index);

/// What only the place of a rate limit tells about its keys.
struct RateKeyPlace {
  uint64_t route = 0;        ///< See rate_key_of_route().
  std::string claim_header;  ///< The header field that the claim is in.
};

/// The hash of a request's key. A part that the request lacks is replaced by its source. Precondition: the fields are
/// known.
uint64_t rate_key_of_request(const RateSecret& secret, const config::RateKey& key, const RateKeyPlace& place,
                             const RequestAttributes& facts);

/// The hash of the key of a TLS handshake, by `source` and `sni`, other than that of any request or connection.
/// `source`: null if it is unknown. A client that sent no server name counts by its source instead.
uint64_t rate_key_of_handshake(const RateSecret& secret, const config::RateKey& key, const Source* source,
                               std::string_view server_name);

/// The hash of a connection's key, other than that of any request.
uint64_t rate_key_of_connection(const RateSecret& secret, const Source& source);

}  // namespace sluice
