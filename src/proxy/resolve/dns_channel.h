#pragma once

#include <ares.h>
#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proxy/config/model/resolve.h"

namespace sluice {

/// A c-ares channel with the settings of an upstream. It has no event loop: the caller polls its sockets and honors its
/// timeouts.
class DnsChannel {
 public:
  /// Whether names without a trailing dot are completed as /etc/resolv.conf specifies (`search`, `ndots`).
  enum class Search : uint8_t { kYes, kNo };
  DnsChannel(const config::Resolve& settings, Search search);
  ~DnsChannel();
  DnsChannel(const DnsChannel&) = delete;
  DnsChannel& operator=(const DnsChannel&) = delete;

  /// The channel; null if c-ares could not be initialized, and error() gives the reason.
  ares_channel get() { return channel_; }
  const std::string& error() const { return error_; }

  /// Adds the sockets to poll, with their events.
  void add_to(std::vector<pollfd>& polled) const;
  /// Lowers `timeout_ms` to the time until process() must be called.
  void limit(int64_t& timeout_ms);
  /// Handles the sockets that poll() found ready, and timeouts. The callbacks of lookups run in here.
  void process(const std::vector<pollfd>& polled);

 private:
  ares_channel channel_ = nullptr;
  std::string error_;
  std::map<int, short> sockets_;  // With their poll events.
};

}  // namespace sluice
