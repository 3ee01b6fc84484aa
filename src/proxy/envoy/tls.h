// TLS contexts of Envoy's as `tls` of listeners and upstreams.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proxy/envoy/mapping_state.h"
#include "proxy/envoy/message.h"

namespace sluice::envoy {

/// `tls` of a listener.
struct ListenerTls {
  config::Node out = map_node();
  /// Whether clients could get in that Envoy would not let in: then the listener must refuse all.
  bool is_weaker = false;
};

/// Returns nothing if there is no certificate that can be used.
std::optional<ListenerTls> listener_tls(const Message& context, bool for_http, const MappingState& state);

/// `tls` of an upstream. `host_name`: of its only endpoint, or empty. Returns nothing if the endpoints' certificates
/// could not be verified as far as Envoy does.
std::optional<config::Node> upstream_tls(const Message& context, const std::string& host_name,
                                         const MappingState& state);

}  // namespace sluice::envoy
