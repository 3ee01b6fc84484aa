// Forwarded (RFC 7239): by whom a request has come, one element for each proxy.
#pragma once

#include <string_view>

#include "pool/chunk_pool.h"
#include "proxy/common/counter.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/head.h"

namespace sluice {

/// What this proxy has to say.
struct ForwardedElement {
  const ClientIp& client;      ///< `for`; `unknown` where it has no address.
  std::string_view scheme;     ///< `proto`: http or https.
  std::string_view authority;  ///< `host`: as the client wrote it.
  std::string_view listener;   ///< `by`: its name, as an obfuscated one (section 6.3), which tells nobody an address.
};

/// Adds the element behind what the request says, in one field; or in its place, if it is so configured, or if what it
/// says is malformed, which is counted: in a quoted text without an end the next element would be lost. Nothing where
/// it is off. False when there is no room.
[[nodiscard]] bool add_forwarded_element(ChunkPool& pool, config::ForwardedFor forwarded,
                                         const ForwardedElement& element, Counter& malformed, Head& request);

/// Whether a value is a list of elements (section 4).
bool is_forwarded(std::string_view value);

}  // namespace sluice
