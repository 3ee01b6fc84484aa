// Forwarded (RFC 7239): the path of a request, one element for each proxy.
#pragma once

#include <string_view>

#include "proxy/common/counter.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/head.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// The element that this proxy adds.
struct ForwardedElement {
  const ClientIp& client;      ///< `for`; `unknown` if it has no address.
  std::string_view scheme;     ///< `proto`: http or https.
  std::string_view authority;  ///< `host`: as the client sent it.
  std::string_view listener;   ///< `by`: its name as an obfuscated identifier (section 6.3), which reveals no address.
};

/// Appends the element to the existing value of Forwarded, in one field. Replaces the value if so configured, and drops
/// a field that is malformed, which is counted: an unterminated quoted string would swallow the next element. Does
/// nothing if Forwarded is off. Returns false if the head has no room.
[[nodiscard]] bool add_forwarded_element(ChunkPool& pool, config::ForwardedFor forwarded,
                                         const ForwardedElement& element, Counter& malformed, Head& request);

/// Whether a value is a list of elements (section 4).
bool is_forwarded(std::string_view value);

}  // namespace sluice
