#include "proxy/alts/alts_options.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "proxy/common/peer_address.h"

namespace sluice {

namespace {

// Empty for a Unix socket: the service knows only IP addresses.
AltsOptions::Endpoint endpoint_of(const PeerAddress& address) {
  if (address.family() != AF_INET && address.family() != AF_INET6) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(address.family(), address.address_bytes().data(), text.data(), text.size());
  return {text.data(), address.port()};
}

}  // namespace

AltsOptions alts_options(const config::Alts& alts, bool is_client, std::string target_name, int fd) {
  AltsOptions options;
  options.is_client = is_client;
  options.target_service_accounts = alts.target_identities;
  options.target_name = std::move(target_name);
  options.max_frame_bytes = alts.max_frame_size.bytes;
  options.local = endpoint_of(PeerAddress::own_of(fd));
  options.remote = endpoint_of(PeerAddress::peer_of(fd));
  return options;
}

}  // namespace sluice
