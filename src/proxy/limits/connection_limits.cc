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

bool SourceLimit::enter(const Source& source) {
  Shard& s = shard(source);
  std::lock_guard lock(s.mutex);
  uint32_t& active = s.active[source];
  if (active >= limit_) return false;
  ++active;
  return true;
}

void SourceLimit::leave(const Source& source) {
  Shard& s = shard(source);
  std::lock_guard lock(s.mutex);
  const auto found = s.active.find(source);
  if (found != s.active.end() && --found->second == 0) s.active.erase(found);
}

}  // namespace sluice
