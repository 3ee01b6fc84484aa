#include "proxy/limits/connection_limits.h"

#include <netinet/in.h>

#include <algorithm>

namespace sluice {

bool Source::from(const sockaddr* address, Source& source) {
  source = {};
  if (address->sa_family == AF_INET) {
    const auto* ip4 = reinterpret_cast<const sockaddr_in*>(address);
    std::copy_n(reinterpret_cast<const uint8_t*>(&ip4->sin_addr), 4, source.bytes.begin());
    return true;
  }
  if (address->sa_family != AF_INET6) return false;
  const in6_addr& ip6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&ip6)) {
    std::copy_n(ip6.s6_addr + 12, 4, source.bytes.begin());
  } else {
    source.ipv6 = true;
    std::copy_n(ip6.s6_addr, 8, source.bytes.begin());
  }
  return true;
}

SourceLimit::Place SourceLimit::take_place(const Source& source) {
  Shard& s = shard(source);
  std::lock_guard lock(s.mutex);
  std::unique_ptr<Connections>& connections = s.sources[source];
  if (!connections) connections = std::make_unique<Connections>(Connections{s, source});
  if (connections->active >= limit_) return nullptr;
  ++connections->active;
  return Place(connections.get());
}

void SourceLimit::Leave::operator()(Connections* connections) const {
  Shard& shard = connections->shard;
  std::lock_guard lock(shard.mutex);
  if (--connections->active == 0) shard.sources.erase(connections->source);
}

}  // namespace sluice
