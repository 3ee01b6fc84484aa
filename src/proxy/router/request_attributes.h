#pragma once

#include <cstdint>
#include <string_view>

#include "alts_like/handshake.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/fields.h"

namespace sluice {

/// The attributes of a request as the client sent it, for choosing its route and for texts with variables. They do not
/// include the outcome. The views are valid until the request's head is changed.
struct RequestAttributes {
  std::string_view host = {};       ///< As canonical_host() gives it.
  std::string_view path = {};       ///< As CanonicalTarget::path().
  std::string_view query = {};      ///< Without the leading question mark.
  std::string_view authority = {};  ///< As the client wrote it.
  std::string_view method = {};     ///< Empty if unknown; query and fields are then unknown too.
  std::string_view scheme = {};
  const Fields* fields = nullptr;
  const ClientIp* client = nullptr;
  const Agreement* agreed = nullptr;  ///< Null unless TLS or ALTS was terminated.
  std::string_view listener = {};
  std::string_view request_id = {};  ///< Set if ids are generated or accepted from the client.
  std::string_view trace_id = {};
  uint16_t client_port = 0;  ///< 0: unknown, as behind a trusted proxy.
  bool http2 = false;

  /// The authenticated identity of the client: the first of its names, or empty.
  std::string_view peer() const {
    return agreed && !agreed->peer_names.empty() ? std::string_view(agreed->peer_names.front()) : std::string_view();
  }
};

}  // namespace sluice
