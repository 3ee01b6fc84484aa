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

/// What a lookup has come to.
struct LookupResult {
  std::vector<ResolvedEndpoint> endpoints;
  uint32_t ttl_s = 0;  ///< The least of all; 0 where nothing says how long it is good.
  /// Why there is no answer, or none for some of it; empty if there is. That a name stands for nothing is an answer.
  std::string error;
  bool lacks_ip4 = false;  ///< It is this family's addresses that are not known,
  bool lacks_ip6 = false;  ///< or this one's.
  uint32_t left_out = 0;   ///< Hosts that were not asked for, as there are too many.

  /// Nothing is known.
  bool failed() const { return !error.empty() && endpoints.empty(); }
};

/// One look at what a configured name stands for: the addresses of a host, or a service's records and then the
/// addresses of the hosts that they name. Each has c-ares set up anew, so that a changed /etc/resolv.conf counts.
///
/// IPv4 and IPv6 are asked for apart: c-ares tells but one status for both, which may be that of the one that failed.
class Lookup {
 public:
  Lookup(const config::Endpoint& endpoint, const config::Resolve& settings);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  // As DnsChannel.
  void add_to(std::vector<pollfd>& polled) const;
  void limit(int64_t& timeout_ms);
  void process(const std::vector<pollfd>& polled);

  bool done() const { return pending_ == 0; }
  /// Whether an address is known already.
  bool found_some() const { return !result_.endpoints.empty(); }
  /// Once it is done; or before, of what is known by then.
  LookupResult take_result();

 private:
  struct Host {  // Whose addresses are asked for, with what they get.
    Lookup* lookup;
    std::string name;
    uint16_t port;
    uint32_t weight;
    uint32_t priority;
  };
  struct Question {
    Host* host;
    int family;
  };

  void ask_for_service(const std::string& name);
  void take_service(int status, const uint8_t* message, int size);
  void ask_for_addresses(DnsChannel& channel, Host host);
  void take_addresses(const Question& question, int status, ares_addrinfo* answer);
  void fail(std::string_view what, std::string_view why);
  void note_ttl(int64_t ttl_s);

  const config::Endpoint& endpoint_;
  const config::Resolve& settings_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Question>> questions_;
  std::optional<uint32_t> ttl_s_;
  LookupResult result_;
  size_t pending_ = 0;  // Questions.
  // The last, so that what c-ares still says when they go finds the rest.
  DnsChannel first_;
  std::optional<DnsChannel> targets_;  // Of SRV records, which are whole names.
};

/// Weights and priorities as an upstream has them: a weight is at least 1, priorities are counted from `base` without
/// gaps, up to config's greatest. The first come first. Exposed for tests.
void fit_service(std::vector<SrvRecord>& records, uint32_t base);

}  // namespace sluice
