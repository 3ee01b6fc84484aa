// The client's address when proxies stand between the client and this one.
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

/// At most this many entries of X-Forwarded-For are read. A client behind more of them is not believed.
inline constexpr uint32_t kMaxForwardedHops = 32;

/// The peers that are trusted to report the client's address. `trusted_hops` works as Envoy's xff_num_trusted_hops,
/// `trusted_proxies` as nginx's set_real_ip_from with real_ip_recursive. Both together mean that many hops, behind one
/// of those proxies. A view of config::Http, which outlives it.
class TrustedProxies {
 public:
  explicit TrustedProxies(const config::Http& http) : hops_(http.trusted_hops), ranges_(http.trusted_proxies) {}

  /// Whether any peer is trusted.
  bool any() const { return hops_ > 0 || !ranges_.empty(); }
  /// Whether this peer is trusted. With trusted_hops alone, every peer is.
  bool trusts(const ClientIp& peer) const { return any() && (ranges_.empty() || holds(peer)); }

  /// Returns the client according to the X-Forwarded-For of a trusted peer. Entries are read from the right, because
  /// each proxy appends the address of its own peer, so that no entry is believed that the client could have written.
  /// Returns nothing if an entry on the way is not an address, or if there are too few.
  std::optional<ClientIp> client(const Fields& request) const;

 private:
  bool holds(const ClientIp& address) const;

  uint32_t hops_;
  std::span<const config::Cidr> ranges_;
};

/// Parses an entry of X-Forwarded-For: an IPv4 address, or an IPv6 address with or without brackets, each with or
/// without a port.
std::optional<ClientIp> parse_forwarded_address(std::string_view text);

}  // namespace sluice
