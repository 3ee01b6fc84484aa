#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/resolve/dns_channel.h"
#include "proxy/resolve/srv_answer.h"
#include "proxy/upstream/endpoint_table.h"

namespace sluice {

/// The result of a lookup.
struct LookupResult {
  std::vector<ResolvedEndpoint> endpoints;
  uint32_t ttl_s = 0;  ///< The lowest TTL of all records; 0 if unknown.
  /// Why the lookup failed, entirely or in part; empty on success. That a name has no addresses is a success.
  std::string error;
  bool lacks_ip4 = false;  ///< The lookup of IPv4 addresses failed.
  bool lacks_ip6 = false;  ///< The lookup of IPv6 addresses failed.
  uint32_t left_out = 0;   ///< Hosts not looked up because there are too many.

  /// Whether the lookup failed entirely.
  bool failed() const { return !error.empty() && endpoints.empty(); }
};

/// One lookup of a configured name: the addresses of a host, or a service's records and then the addresses of the hosts
/// that they name. Each lookup initializes c-ares again, so that changes of /etc/resolv.conf take effect.
///
/// IPv4 and IPv6 are separate queries, because for a combined one c-ares reports a single status, which may be that of
/// the family that failed.
class Lookup {
 public:
  Lookup(const config::Endpoint& endpoint, const config::Resolve& settings);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  // See DnsChannel.
  void add_to(std::vector<pollfd>& polled) const;
  void limit(int64_t& timeout_ms);
  void process(const std::vector<pollfd>& polled);

  bool done() const { return pending_ == 0; }
  /// Whether an address has been found already.
  bool found_some() const { return !result_.endpoints.empty(); }
  /// Returns the result: complete if done(), else what has been found so far. Call it once.
  LookupResult take_result();

 private:
  struct Host {  // A host to look up, with the attributes of its endpoints.
    Lookup* lookup;
    std::string name;
    uint16_t port;
    uint32_t weight;
    uint32_t priority;
  };
  struct Query {
    Host* host;
    int family;
  };

  void query_service(const std::string& name);
  void take_service(int status, const uint8_t* message, int size);
  void query_addresses(DnsChannel& channel, Host host);
  void take_addresses(const Query& query, int status, ares_addrinfo* answer);
  void fail(std::string_view what, std::string_view why);
  void note_ttl(int64_t ttl_s);

  const config::Endpoint endpoint_;
  const config::Resolve settings_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Query>> queries_;
  std::optional<uint32_t> ttl_s_;
  LookupResult result_;
  size_t pending_ = 0;  // Queries in flight.
  // Last, so that callbacks of c-ares during their destruction find the other members alive.
  DnsChannel first_;
  std::optional<DnsChannel> targets_;  // For the targets of SRV records, which are fully qualified.
};

/// Converts weights and priorities to those of an upstream: a weight is at least 1, and priorities count from `base`
/// without gaps, up to the configuration's maximum. Sorts the records by priority. Exposed for tests.
void fit_service(std::vector<SrvRecord>& records, uint32_t base);

}  // namespace sluice
