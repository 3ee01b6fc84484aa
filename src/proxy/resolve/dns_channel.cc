#include "proxy/resolve/dns_channel.h"

#include <sys/time.h>

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {

DnsChannel::DnsChannel(const config::Resolve& settings, Search search) {
  static std::once_flag once;
  std::call_once(once, [] { ares_library_init(ARES_LIB_INIT_ALL); });
  char lookups[] = "fb";  // /etc/hosts, then name servers.
  ares_options options{};
  int set = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB;
  options.flags = search == Search::kNo ? ARES_FLAG_NOSEARCH : 0;
  options.timeout = static_cast<int>(settings.timeout.count());
  options.tries = static_cast<int>(settings.attempts);
  options.lookups = lookups;
  options.sock_state_cb_data = this;
  options.sock_state_cb = [](void* self, ares_socket_t fd, int readable, int writable) {
    const auto events = static_cast<short>((readable ? POLLIN : 0) | (writable ? POLLOUT : 0));
    auto& sockets = static_cast<DnsChannel*>(self)->sockets_;
    events == 0 ? static_cast<void>(sockets.erase(fd)) : static_cast<void>(sockets[fd] = events);
  };
#ifdef ARES_OPT_QUERY_CACHE
  // Later versions cache answers by default. Disabled: every lookup must query the server.
  options.qcache_max_ttl = 0;
  set |= ARES_OPT_QUERY_CACHE;
#endif
  int status = ares_init_options(&channel_, &options, set);
  if (status != ARES_SUCCESS) channel_ = nullptr;
  if (status == ARES_SUCCESS && !settings.servers.empty()) {
    const std::string servers =
        absl::StrJoin(settings.servers, ",", [](std::string* out, const config::Address& a) { *out += a.text(); });
    status = ares_set_servers_ports_csv(channel_, servers.c_str());
  }
  if (status == ARES_SUCCESS) return;
  error_ = ares_strerror(status);
  if (channel_) ares_destroy(channel_);
  channel_ = nullptr;
}

DnsChannel::~DnsChannel() {
  if (channel_) ares_destroy(channel_);
}

void DnsChannel::add_to(std::vector<pollfd>& polled) const {
  for (const auto& [fd, events] : sockets_) polled.push_back({.fd = fd, .events = events, .revents = 0});
}

void DnsChannel::limit(int64_t& timeout_ms) {
  timeval left;
  if (!channel_ || !ares_timeout(channel_, nullptr, &left)) return;
  // Rounds up: waking early would cause another wakeup immediately.
  timeout_ms = std::min<int64_t>(timeout_ms, int64_t{left.tv_sec} * 1000 + left.tv_usec / 1000 + 1);
}

void DnsChannel::process(const std::vector<pollfd>& polled) {
  if (!channel_) return;
  for (const pollfd& each : polled) {
    if (each.revents == 0 || !sockets_.contains(each.fd)) continue;
    const bool readable = (each.revents & (POLLIN | POLLERR | POLLHUP)) != 0;
    const bool writable = (each.revents & (POLLOUT | POLLERR)) != 0;
    ares_process_fd(channel_, readable ? each.fd : ARES_SOCKET_BAD, writable ? each.fd : ARES_SOCKET_BAD);
  }
  ares_process_fd(channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // Handles timeouts.
}

}  // namespace sluice
