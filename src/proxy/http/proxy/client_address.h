// Who the client is, where proxies stand between it and this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/fields.h"

namespace sluice {

/// More entries of X-Forwarded-For than this are not looked at.
inline constexpr uint32_t kMaxForwardedHops = 32;

/// Whose word counts about the client. `trusted_hops` as Envoy's xff_num_trusted_hops, `trusted_proxies` as nginx's
/// set_real_ip_from with real_ip_recursive; both: that many hops, behind one of those proxies. A view of config::Http.
class TrustedProxies {
 public:
  explicit TrustedProxies(const config::Http& http) : hops_(http.trusted_hops), ranges_(http.trusted_proxies) {}

  /// Whether anybody is trusted.
  bool any() const { return hops_ > 0 || !ranges_.empty(); }
  /// Whether a peer is one of them. By trusted_hops alone, every peer is.
  bool trusts(const ClientIp& peer) const { return any() && (ranges_.empty() || holds(peer)); }

  /// The client that X-Forwarded-For of a trusted peer tells: its entries are looked at from the right, as each proxy
  /// adds the one that it was asked by behind the others, so that none is believed which the client can have written.
  /// Nothing where an entry on the way is no address, or there are too few of them.
  std::optional<ClientIp> client(const Fields& request) const;

 private:
  bool holds(const ClientIp& address) const;

  uint32_t hops_;
  std::span<const config::Cidr> ranges_;
};

/// An entry of X-Forwarded-For: an address of IPv4 or IPv6, the latter perhaps in brackets, either perhaps with a port.
std::optional<ClientIp> parse_forwarded_address(std::string_view text);

}  // namespace sluice
