#include "proxy/config/model/listen_address.h"

#include "proxy/config/model/config.h"

namespace sluice::config {

ListenAddresses::ListenAddresses(const Config& config) {
  for (const Listener& listener : config.listeners) {
    for (const Address& address : listener.addresses) {
      // The kernel chooses another port for each address with port 0.
      if (address.kind() == Address::Kind::kIp4 && address.port() != 0) ip4_ports_.insert(address.port());
    }
  }
}

std::vector<ListenAddress> ListenAddresses::of(const Listener& listener) const {
  std::vector<ListenAddress> addresses;
  for (const Address& address : listener.addresses) {
    const bool all_ip6 = address.kind() == Address::Kind::kIp6 && address.is_wildcard();
    addresses.push_back({address, all_ip6 && !listener.ipv6_only && !ip4_ports_.contains(address.port())});
  }
  return addresses;
}

}  // namespace sluice::config
