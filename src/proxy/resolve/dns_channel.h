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

/// c-ares with the settings of an upstream, without a loop of its own: its sockets and times are the caller's to watch.
class DnsChannel {
 public:
  /// Whether names without a dot at their end are completed as /etc/resolv.conf says (`search`, `ndots`).
  enum class Search : uint8_t { kYes, kNo };
  DnsChannel(const config::Resolve& settings, Search search);
  ~DnsChannel();
  DnsChannel(const DnsChannel&) = delete;
  DnsChannel& operator=(const DnsChannel&) = delete;

  /// Null if c-ares could not be set up; error() says why.
  ares_channel get() { return channel_; }
  const std::string& error() const { return error_; }

  /// Adds the sockets that something is awaited on.
  void add_to(std::vector<pollfd>& polled) const;
  /// Lowers `timeout_ms` to when process() must be called at the latest.
  void limit(int64_t& timeout_ms);
  /// Does what the sockets that poll found ready, and the time, call for. Callbacks come out of here.
  void process(const std::vector<pollfd>& polled);

 private:
  ares_channel channel_ = nullptr;
  std::string error_;
  std::map<int, short> sockets_;  // With what is awaited, as poll has it.
};

}  // namespace sluice
