#pragma once

#include <string_view>

#include "alts_like/handshake.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/fields.h"

namespace sluice {

/// What is known of a request: for choosing its route, and for texts that speak of it. What the client asked for, not
/// what becomes of it. Views: good as long as the request's head is left alone.
struct RequestAttributes {
  std::string_view host = {};       ///< As canonical_host() gives it.
  std::string_view path = {};       ///< As CanonicalTarget::path().
  std::string_view query = {};      ///< Without the question mark.
  std::string_view authority = {};  ///< As the client wrote it.
  std::string_view method = {};     ///< Empty: it is not known, nor what is in the query and the fields.
  std::string_view scheme = {};
  const Fields* fields = nullptr;
  const ClientIp* client = nullptr;
  const Agreement* agreed = nullptr;  ///< Where TLS or ALTS was terminated; else null.
  std::string_view listener = {};
  std::string_view request_id = {};  ///< Where they are made, or taken from the client.
  std::string_view trace_id = {};
  bool http2 = false;

  /// Who the client has proven to be: the first of its names.
  std::string_view peer() const {
    return agreed && !agreed->peer_names.empty() ? std::string_view(agreed->peer_names.front()) : std::string_view();
  }
};

}  // namespace sluice
