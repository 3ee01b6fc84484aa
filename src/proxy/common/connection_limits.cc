#include "proxy/common/connection_limits.h"

#include <netinet/in.h>

#include <algorithm>

namespace sluice {

bool Source::from(const sockaddr* address, Source& source) {
  if (address->sa_family == AF_INET) {
    const in_addr& ip4 = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    return from({reinterpret_cast<const uint8_t*>(&ip4), sizeof ip4}, source);
  }
  if (address->sa_family != AF_INET6) return false;
  const in6_addr& ip6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  const std::span<const uint8_t> bytes(ip6.s6_addr);
  return from(IN6_IS_ADDR_V4MAPPED(&ip6) ? bytes.subspan(12) : bytes, source);
}

bool Source::from(std::span<const uint8_t> address, Source& source) {
  source = {};
  if (address.size() != 4 && address.size() != 16) return false;
  source.ipv6 = address.size() == 16;
  std::copy_n(address.begin(), source.ipv6 ? 8 : 4, source.bytes.begin());
  return true;
}

SourceLimit::Place SourceLimit::take_place(const Source& source) {
  Shard& s = shard(source);
  std::lock_guard lock(s.mutex);
  std::unique_ptr<Connections>& connections = s.sources[source];
  if (!connections) connections = std::make_unique<Connections>(Connections{s, source});
  if (connections->active >= limit_.load(std::memory_order_relaxed)) return nullptr;
  ++connections->active;
  return Place(connections.get());
}

void SourceLimit::Leave::operator()(Connections* connections) const {
  Shard& shard = connections->shard;
  std::lock_guard lock(shard.mutex);
  if (--connections->active == 0) shard.sources.erase(connections->source);
}

}  // namespace sluice
